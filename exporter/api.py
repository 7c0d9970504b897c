"""What engines are doing, for probes, benchmarks and people: JSON, and the status page. Unknown sources are 404."""

from collections.abc import Callable
from typing import Annotated, Any, Protocol

from fastapi import APIRouter, Query, Response
from fastapi.responses import HTMLResponse, JSONResponse

from exporter.exposition import StoppingError
from exporter.status import Engines, View, page, readiness, recent, startup, status
from exporter.version import VERSION

_UNAVAILABLE = 503
_NOT_FOUND = 404
_OTHER_ANSWERS: dict[int | str, dict[str, Any]] = {
    _NOT_FOUND: {"description": "There is no such source."},
    _UNAVAILABLE: {"description": "The history of the logs is being read, or inferlog ends; of /engine/ready also: not ready."},
}

Source = Annotated[str, Query(description="Only this source, and what is in its log beside others; default: all.")]
Strict = Annotated[bool, Query(description="Whether a compile at this moment counts as not ready; default: no.")]


class Look(Protocol):
    """Gives what a view makes of all sources at this moment. Raises StoppingError."""

    def __call__(self, view: View, /) -> Engines: ...


class Api:
    """The answers about engines. Until the history is read there is nothing to say of them."""

    def __init__(self, look: Look, ready: Callable[[], bool], telemetry_path: str) -> None:
        self._look, self._ready, self._telemetry_path = look, ready, telemetry_path

    def router(self) -> APIRouter:
        """All paths."""
        router = APIRouter()
        for path, answer in (("/", self.page), ("/status.js", self.script)):
            router.add_api_route(path, answer, methods=["GET", "HEAD"], response_model=None, include_in_schema=False)
        for path, answer in (
            ("/api/v1/status", self.status),
            ("/api/v1/events", self.events),
            ("/engine/startup", self.startup),
            ("/engine/ready", self.ready),
        ):
            router.add_api_route(path, answer, methods=["GET"], response_model=None, responses=_OTHER_ANSWERS)
            router.add_api_route(path, answer, methods=["HEAD"], response_model=None, include_in_schema=False)
        return router

    def page(self) -> Response:
        """The status page: also while the history is being read."""
        from exporter.pages import status_page

        try:
            engines = self._look(page) if self._ready() else []
        except StoppingError:
            return _unavailable("ending")
        return HTMLResponse(status_page(engines, reading=not self._ready(), telemetry_path=self._telemetry_path))

    def script(self) -> Response:
        """What brings the status page up to date."""
        from exporter.pages import status_script

        return Response(status_script(), media_type="text/javascript")

    def status(self, source: Source = "") -> Response:
        """All that is known of the engines. It says so itself when the history is not read yet."""
        if not self._ready():
            return JSONResponse({"version": VERSION, "reading_history": True, "engines": []})
        return self._answer(status, source, {"version": VERSION, "reading_history": False})

    def events(self, source: Source = "") -> Response:
        """The last events of each engine."""
        return self._answer(recent, source)

    def startup(self, source: Source = "") -> Response:
        """In which phase the engines are, and since when."""
        return self._answer(startup, source)

    def ready(self, source: Source = "", strict: Strict = False) -> Response:
        """200 when the engine became ready, with several when all did; a headless node has no readiness, and is not asked beside others.

        With strict nothing may compile at this moment. A probe of that kind can empty a Service.
        """

        def is_ready(engines: Engines) -> bool:
            asked = [each for each in engines if each["state"] != "worker"]
            return bool(asked) and all(each.get("ready") and not (strict and each["compiling"]) for each in asked)

        return self._answer(readiness, source, accept=is_ready)

    def _answer(
        self, view: View, source: str, head: dict[str, Any] | None = None, accept: Callable[[Engines], bool] | None = None
    ) -> Response:
        if not self._ready():
            return _unavailable("reading the history of the logs")
        try:
            engines = self._look(view)
        except StoppingError:
            return _unavailable("ending")
        if source:
            engines = [each for each in engines if each["source"] == source or each["source"].startswith(f"{source}/")]
            if not engines:
                return JSONResponse({"error": "no such source"}, _NOT_FOUND)
        if accept is None:
            return JSONResponse({**(head or {}), "engines": engines})
        accepted = accept(engines)
        return JSONResponse({"ready": accepted, "engines": engines}, 200 if accepted else _UNAVAILABLE)


def _unavailable(why: str) -> Response:
    return JSONResponse({"error": why}, _UNAVAILABLE)
