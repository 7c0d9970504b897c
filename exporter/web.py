"""The HTTP side: metrics, health, and what `exporter.api` says of the engines. Unknown paths are 404."""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Annotated

from fastapi import FastAPI, Header, Query, Response
from fastapi.middleware.gzip import GZipMiddleware
from fastapi.responses import HTMLResponse, PlainTextResponse
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.exposition import choose_encoder

from exporter.api import Api, Look
from exporter.encoder import encoder
from exporter.exposition import StoppingError
from exporter.shipped import runbook
from exporter.version import VERSION

_GZIP_MINIMUM_BYTES = 1024
_GZIP_LEVEL = 4  # a tenth more bytes than with the highest, in a fifth of the time

_FORMS = 4
"""What a Prometheus, another scraper and a person accept. Who always accepts something else makes us write all of it anew."""


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
    look: Look,
) -> FastAPI:
    """The application. `/metrics` answers 503 until `ready`: half a history would look like a counter that fell.

    `reload` reads the configuration again and says why it could not, None when it may not be asked to; `healthy` whether the
    logs are still read; `look` gives what a view makes of the sources.
    """
    app = FastAPI(
        title="inferlog",
        version=VERSION,
        openapi_url="/api/openapi.json",
        docs_url=None,  # FastAPI's loads its scripts from another site
        redoc_url=None,
    )
    app.router.redirect_slashes = False  # `/metrics/` is not `/metrics`
    app.add_middleware(GZipMiddleware, minimum_size=_GZIP_MINIMUM_BYTES, compresslevel=_GZIP_LEVEL)

    encoder_of = lru_cache(maxsize=_FORMS)(encoder)

    @app.api_route(telemetry_path, methods=["GET", "HEAD"], include_in_schema=False)
    def metrics(accept: Annotated[str, Header()] = "", name: Annotated[list[str] | None, Query(alias="name[]")] = None) -> Response:
        if not ready():
            return _reading()
        # For a few families it does not pay to remember, and what is remembered of all stays.
        encode, content_type = choose_encoder(accept) if name else encoder_of(accept)
        try:
            body = encode(_Named(registry, set(name)) if name else registry)
        except StoppingError:
            return PlainTextResponse("ending\n", status_code=503)
        return Response(body, media_type=None, headers={"Content-Type": content_type})

    @app.api_route("/-/healthy", methods=["GET", "HEAD"], include_in_schema=False)
    async def is_healthy() -> Response:
        return PlainTextResponse("inferlog is healthy\n") if healthy() else PlainTextResponse("a thread has ended\n", 500)

    @app.api_route("/-/ready", methods=["GET", "HEAD"], include_in_schema=False)
    async def is_ready() -> Response:
        return PlainTextResponse("inferlog is ready\n") if ready() else _reading()

    @app.post("/-/reload", include_in_schema=False)
    def reload_configuration() -> Response:
        if reload is None:
            return PlainTextResponse("not allowed: start with --web.enable-lifecycle, or send SIGHUP\n", 403)
        reason = reload()
        return PlainTextResponse(
            f"configuration not reloaded: {reason}\n" if reason else "configuration reloaded\n", 500 if reason else 200
        )

    @app.api_route("/runbooks/{alert}", methods=["GET", "HEAD"], include_in_schema=False)
    def runbook_of(alert: str) -> Response:
        text = runbook(alert)
        return PlainTextResponse("no such alert\n", 404) if text is None else PlainTextResponse(text)

    @app.api_route("/api/docs", methods=["GET", "HEAD"], include_in_schema=False)
    def documentation() -> Response:
        from exporter.pages import api_page

        return HTMLResponse(api_page(app.openapi()))

    app.include_router(Api(look, ready, telemetry_path).router())
    return app


def _reading() -> Response:
    return PlainTextResponse("reading the history of the logs\n", status_code=503)
