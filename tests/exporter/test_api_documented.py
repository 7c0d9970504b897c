"""The answers about engines are documented, for programs and on a page that needs no other site."""

import re

from .conftest import read
from .test_api import SERVING, asking


def test_the_answers_are_documented() -> None:
    """Each once and in words; what is for a browser alone is not."""
    client = asking(read(*SERVING).source)
    paths = client.get("/api/openapi.json").json()["paths"]

    assert {"/api/v1/status", "/api/v1/events", "/engine/startup", "/engine/ready"} <= paths.keys()
    assert not {"/", "/status.js", "/api/docs"} & paths.keys()
    assert all(set(told) == {"get"} and told["get"]["summary"] and told["get"]["description"] for told in paths.values())
    assert 404 == client.get("/docs").status_code


def test_the_page_about_them() -> None:
    """Says what the document says."""
    client = asking(read(*SERVING).source)
    told = client.get("/api/docs")
    assert told.headers["content-type"] == "text/html; charset=utf-8"
    for path, operations in client.get("/api/openapi.json").json()["paths"].items():
        operation = operations["get"]
        words = [operation["description"].partition("\n")[0], *(each["description"] for each in operation["responses"].values())]
        words += [text for each in operation["parameters"] for text in (f">?{each['name']}<", f">{each['description']}<")]
        assert f'GET <a href="{path}">' in told.text
        assert [] == [each for each in words if each not in told.text]


def test_no_page_loads_anything_from_elsewhere() -> None:
    """A cluster may have no way out, and nobody else shall know who looks."""
    client = asking(read(*SERVING).source)
    for page in ("/", "/api/docs"):
        text = client.get(page).text
        assert [] == [each for each in re.findall(r"""(?:src|href|url|import)\s*[=(:]?\s*["'(]?(\S*//\S*)""", text) if each]
