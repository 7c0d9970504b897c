"""The HTTP side: metrics, health, and a landing page. Unknown paths are 404."""

from collections.abc import Callable, Iterator
from html import escape
from typing import Annotated

from fastapi import FastAPI, Header, Query, Response
from fastapi.middleware.gzip import GZipMiddleware
from fastapi.responses import HTMLResponse, PlainTextResponse
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.exposition import choose_encoder

from exporter.exposition import StoppingError
from exporter.version import VERSION

_GZIP_MINIMUM_BYTES = 1024


class _Named:
    """A registry reduced to some families, as `?name[]=` asks for."""

    def __init__(self, registry: CollectorRegistry, names: set[str]) -> None:
        self._registry, self._names = registry, names

    def collect(self) -> Iterator[Metric]:
        for metric in self._registry.collect():
            if self._names & {metric.name, *(sample.name for sample in metric.samples)}:
                yield metric


def make_app(
    registry: CollectorRegistry,
    ready: Callable[[], bool],
    reload: Callable[[], str] | None,
    *,
    healthy: Callable[[], bool] = lambda: True,
    telemetry_path: str,
    sources: Callable[[], list[str]],
) -> FastAPI:
    """The application. `/metrics` answers 503 until `ready`: half a history would look like a counter that fell.

    `reload` reads the configuration again and says why it could not, None when it may not be asked to; `healthy` whether the logs are still read.
    """
    app = FastAPI(title="inferlog", version=VERSION, openapi_url=None, docs_url=None, redoc_url=None)
    app.router.redirect_slashes = False  # `/metrics/` is not `/metrics`
    app.add_middleware(GZipMiddleware, minimum_size=_GZIP_MINIMUM_BYTES)

    @app.api_route(telemetry_path, methods=["GET", "HEAD"])
    def metrics(accept: Annotated[str, Header()] = "", name: Annotated[list[str] | None, Query(alias="name[]")] = None) -> Response:
        if not ready():
            return _reading()
        encode, content_type = choose_encoder(accept)
        try:
            body = encode(_Named(registry, set(name)) if name else registry)
        except StoppingError:
            return PlainTextResponse("ending\n", status_code=503)
        return Response(body, media_type=None, headers={"Content-Type": content_type})

    @app.api_route("/-/healthy", methods=["GET", "HEAD"])
    async def is_healthy() -> Response:
        return PlainTextResponse("inferlog is healthy\n") if healthy() else PlainTextResponse("a thread has ended\n", 500)

    @app.api_route("/-/ready", methods=["GET", "HEAD"])
    async def is_ready() -> Response:
        return PlainTextResponse("inferlog is ready\n") if ready() else _reading()

    @app.post("/-/reload")
    def reload_configuration() -> Response:
        if reload is None:
            return PlainTextResponse("not allowed: start with --web.enable-lifecycle, or send SIGHUP\n", 403)
        reason = reload()
        return PlainTextResponse(
            f"configuration not reloaded: {reason}\n" if reason else "configuration reloaded\n", 500 if reason else 200
        )

    @app.api_route("/", methods=["GET", "HEAD"])
    async def landing() -> Response:
        return HTMLResponse(landing_page(telemetry_path, sources()))

    return app


def _reading() -> Response:
    return PlainTextResponse("reading the history of the logs\n", status_code=503)


def landing_page(telemetry_path: str, sources: list[str]) -> str:
    """Name, version, links and sources in plain HTML."""
    links = "".join(f'<li><a href="{escape(path)}">{escape(path)}</a></li>' for path in (telemetry_path, "/-/healthy", "/-/ready"))
    names = "".join(f"<li>{escape(name)}</li>" for name in sources)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>inferlog</title>'
        '<meta name="viewport" content="width=device-width"><style>:root{color-scheme:light dark}'
        "body{font:16px/1.5 system-ui,sans-serif;max-width:42rem;margin:3rem auto;padding:0 1rem}</style></head>"
        f"<body><h1>inferlog</h1><p>Logs of LLM inference engines as Prometheus metrics. Version {escape(VERSION)}.</p>"
        f"<ul>{links}</ul><h2>Sources</h2><ul>{names}</ul></body></html>"
    )
