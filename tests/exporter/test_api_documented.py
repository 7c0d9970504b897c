"""The answers about engines are documented by FastAPI's own pages."""

from .conftest import read
from .test_api import SERVING, asking


def test_the_answers_are_documented() -> None:
    """Each once and in words; what is for a browser alone is not."""
    client = asking(read(*SERVING).source)
    paths = client.get("/api/openapi.json").json()["paths"]

    assert {"/api/v1/status", "/api/v1/events", "/engine/startup", "/engine/ready"} <= paths.keys()
    assert not {"/", "/status.js"} & paths.keys()
    assert all(set(told) == {"get"} and told["get"]["summary"] and told["get"]["description"] for told in paths.values())
    assert "/api/openapi.json" in client.get("/api/docs").text
    assert 404 == client.get("/docs").status_code
