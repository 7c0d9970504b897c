"""The HTTP side, through the application itself."""

import asyncio
import gzip
import re
from collections.abc import Iterator

import httpx
import pytest
from fastapi import FastAPI
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics

from exporter.exposition import Snapshot, SnapshotCollector
from exporter.source import Source
from exporter.status import Engines, View
from exporter.web import make_app

from .conftest import READY, YEAR, line, logo, parsed

OPENMETRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"


class Readiness:
    """Whether the history is read."""

    def __init__(self) -> None:
        self.value = True

    def __call__(self) -> bool:
        """As the daemon says it."""
        return self.value


@pytest.fixture
def ready() -> Readiness:
    """A switch."""
    return Readiness()


@pytest.fixture
def source() -> Source:
    """An engine that serves."""
    found = Source("engine", year=YEAR)
    found.feed(f"{logo()}\n{line('GPU KV cache size: 640 tokens')}\n{READY}\n".encode())
    return found


@pytest.fixture
def registry(source: Source) -> CollectorRegistry:
    """Its metrics."""
    found = CollectorRegistry()
    found.register(SnapshotCollector(lambda: Snapshot([*source.snapshots(None)])))
    return found


class Client:
    """Asks the application without a server. It follows no redirection and sees the application's errors.

    fastapi.testclient warns of httpx from Starlette 1.10 on, and a warning is an error here.
    """

    def __init__(self, app: FastAPI) -> None:
        self._app = app

    def request(self, method: str, path: str, headers: dict[str, str] | None = None) -> httpx.Response:
        """One request; `extensions["raw"]` has the body as it was sent."""
        return asyncio.run(self._request(method, path, {"Accept-Encoding": "identity", **(headers or {})}))

    async def _request(self, method: str, path: str, headers: dict[str, str]) -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(self._app), base_url="http://inferlog") as client:
            async with client.stream(method, path, headers=headers) as response:
                raw = b"".join([part async for part in response.aiter_raw()])
            return httpx.Response(response.status_code, headers=response.headers, content=raw, extensions={"raw": raw})

    def get(self, path: str, headers: dict[str, str] | None = None) -> httpx.Response:
        """GET."""
        return self.request("GET", path, headers)


@pytest.fixture
def client(registry: CollectorRegistry, ready: Readiness, source: Source) -> Client:
    """A client of the application."""
    return Client(make_app(registry, ready, lambda: "", telemetry_path="/metrics", look=lambda view: view(source, 0.0)))


def nothing(view: object) -> list[dict[str, object]]:
    """What there is to see of no source."""
    return []


# -- /metrics ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("path", ["/metrics", "/-/ready"])
def test_503_until_the_history_is_read_then_200(client: Client, ready: Readiness, path: str, method: str) -> None:
    """Half a history would look like a counter that fell."""
    ready.value = False
    assert 503 == client.request(method, path).status_code

    ready.value = True
    assert 200 == client.request(method, path).status_code


def test_503_shows_no_series(client: Client, ready: Readiness) -> None:
    """Not even a part of the truth."""
    ready.value = False

    assert "inferlog_" not in client.get("/metrics").text


@pytest.mark.parametrize("accept", ["", "*/*", "text/plain", "text/plain;version=0.0.4"])
def test_text_format_is_the_default(client: Client, accept: str) -> None:
    """For whoever does not ask for OpenMetrics."""
    response = client.get("/metrics", headers={"Accept": accept})

    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 640 == parsed(response.text)["inferlog_kv_cache_size_tokens", _labels(dp_rank="0", pool="device")]


def test_openmetrics_is_served_when_asked_for(client: Client) -> None:
    """As Prometheus asks; it ends in EOF."""
    response = client.get("/metrics", headers={"Accept": OPENMETRICS})

    assert response.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert response.text.endswith("# EOF\n")
    values = {each.name: each.value for family in parse_openmetrics(response.text) for each in family.samples}
    assert 640 == values["inferlog_kv_cache_size_tokens"]


def _labels(**labels: str) -> frozenset[tuple[str, str]]:
    return frozenset({"source": "engine", "runtime": "vllm", **labels}.items())


def test_content_type_stands_once(client: Client) -> None:
    """Two headers would be a broken response."""
    assert 1 == len(client.get("/metrics").headers.get_list("content-type"))


def test_gzip_for_whoever_accepts_it(client: Client) -> None:
    """Prometheus does, and the exposition shrinks well."""
    plain = client.get("/metrics")
    assert "content-encoding" not in plain.headers

    response = client.get("/metrics", headers={"Accept-Encoding": "gzip"})
    assert "gzip" == response.headers["content-encoding"]
    body = response.extensions["raw"]
    assert len(body) < len(plain.content)
    assert gzip.decompress(body) == plain.content


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("name[]=inferlog_engine_ready", {"inferlog_engine_ready"}),
        ("name[]=inferlog_engine_starts_total", {"inferlog_engine_starts_total"}),
        ("name[]=inferlog_engine_ready&name[]=inferlog_build_info", {"inferlog_engine_ready", "inferlog_build_info"}),
        ("name[]=nothing_like_this", set()),
    ],
)
def test_name_selects_families(client: Client, query: str, names: set[str]) -> None:
    """By the name of the family or of a series, as in client_python."""
    response = client.get(f"/metrics?{query}")

    assert 200 == response.status_code
    assert names == {name for name, _ in parsed(response.text)}


@pytest.mark.parametrize("path", ["/metrics", "/-/healthy", "/-/ready", "/"])
def test_head_has_the_headers_and_no_body(client: Client, path: str) -> None:
    """Some probes ask with HEAD."""
    response = client.request("HEAD", path)

    assert 200 == response.status_code
    assert b"" == response.content
    assert client.get(path).headers["content-type"] == response.headers["content-type"]


def test_metrics_are_read_at_the_scrape(client: Client, registry: CollectorRegistry) -> None:
    """Nothing is cached between two scrapes."""
    seen: list[int] = []

    class Count:
        def collect(self) -> Iterator[object]:
            seen.append(1)
            return iter(())

    registry.register(Count())  # type: ignore[arg-type]
    before = len(seen)
    client.get("/metrics")
    client.get("/metrics")

    assert 2 == len(seen) - before


# -- other paths -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/metric",
        "/metrics/x",
        "/-/",
        "/docs",
        "/redoc",
        "/openapi.json",
        "/favicon.ico",
        "/api/v1/nothing",
        "/..%2fetc/passwd",
    ],
)
def test_unknown_path_is_404(client: Client, path: str) -> None:
    """An exporter that answers 200 to anything proves nothing."""
    assert 404 == client.get(path).status_code


@pytest.mark.parametrize("path", ["/metrics/", "/-/healthy/", "/-/ready/"])
def test_known_path_with_a_slash_is_404_too(client: Client, path: str) -> None:
    """It is another path, and unknown."""
    assert 404 == client.get(path).status_code


def test_reload_says_why_it_was_none(registry: CollectorRegistry) -> None:
    """500, so that a script sees it; a GET is refused, since a link must not change anything."""
    answers = ["", "inferlog.yaml:1:1: the file is empty"]
    client = Client(make_app(registry, lambda: True, lambda: answers.pop(0), telemetry_path="/metrics", look=nothing))

    assert 405 == client.get("/-/reload").status_code
    good, bad = (client.request("POST", "/-/reload") for _ in range(2))
    assert (200, "configuration reloaded\n") == (good.status_code, good.text)
    assert (500, "configuration not reloaded: inferlog.yaml:1:1: the file is empty\n") == (bad.status_code, bad.text)


@pytest.mark.parametrize("path", ["/metrics", "/-/healthy", "/-/ready", "/"])
def test_pages_are_read_only(client: Client, path: str) -> None:
    """Nobody posts to them."""
    assert 405 == client.request("POST", path).status_code


def test_healthy_while_the_history_is_still_being_read(client: Client, ready: Readiness) -> None:
    """The process lives, whatever it has read; a liveness probe must not kill it."""
    ready.value = False

    assert 200 == client.get("/-/healthy").status_code


def test_ready_says_so(client: Client) -> None:
    """For whoever looks with curl."""
    assert "inferlog is ready\n" == client.get("/-/ready").text


# -- landing page ------------------------------------------------------------------------------------------------------


def test_landing_page_has_links_and_sources(client: Client) -> None:
    """Name, version, links to what there is."""
    response = client.get("/")

    assert response.headers["content-type"].startswith("text/html")
    for part in ("inferlog", 'href="/metrics"', 'href="/-/healthy"', 'href="/-/ready"', "<h2>engine "):
        assert part in response.text


def test_links_of_the_landing_page_lead_somewhere(client: Client) -> None:
    """None of them is dead."""
    links = re.findall(r'<a href="([^"]+)"', client.get("/").text)

    assert links
    assert {200} == {client.get(link).status_code for link in links}


def test_landing_page_escapes_names(registry: CollectorRegistry) -> None:
    """A name is text, never markup."""
    names = ["<script>alert(1)</script>", "a&b", '"']

    def look(view: View) -> Engines:
        return [engine for name in names for engine in view(Source(name, year=YEAR), 0.0)]

    page = Client(make_app(registry, lambda: True, lambda: "", telemetry_path='/m"><b>', look=look)).get("/").text

    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "a&amp;b" in page
    assert '"><b>' not in page


def test_telemetry_path_moves_the_metrics(registry: CollectorRegistry) -> None:
    """The old path is unknown then, and the landing page links the new one."""
    client = Client(make_app(registry, lambda: True, lambda: "", telemetry_path="/inferlog/metrics", look=nothing))

    assert 200 == client.get("/inferlog/metrics").status_code
    assert 404 == client.get("/metrics").status_code
    assert 'href="/inferlog/metrics"' in client.get("/").text
