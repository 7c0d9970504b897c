"""The pages for people: rendered here, nothing is loaded from elsewhere."""

import time
from collections.abc import Callable
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from exporter.pages import timeline
from exporter.version import VERSION

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


def status_page(engines: list[dict[str, Any]], *, reading: bool, telemetry_path: str) -> str:
    """Engines as `exporter.status.page` tells of them."""
    return _template("status.html").render(
        engines=engines,
        reading=reading,
        telemetry_path=telemetry_path,
        version=VERSION,
        now=time.time(),
        timeline=timeline.timeline,
        size=timeline,
    )


def api_page(openapi: dict[str, Any]) -> str:
    """What the OpenAPI document says, for who reads it where no page of another site can be loaded."""
    return _template("api.html").render(version=openapi["info"]["version"], paths=openapi["paths"])


@cache
def status_script() -> str:
    """What brings the page up to date; the page says the same without it, and is loaded again then."""
    return (resources.files("exporter") / "pages" / "status.js").read_text(encoding="utf-8")


@cache
def _template(name: str) -> Template:
    return templates("pages", span=span, moment=moment, number=number, words=timeline.words).get_template(name)


def templates(folder: str, **filters: Callable[..., object]) -> Environment:
    """The templates of a folder of this package, in which what is filled in is text and a name that is not there is an error."""
    environment = Environment(
        loader=PackageLoader("exporter", folder), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= filters
    return environment


def span(seconds: float | None) -> str:
    """`4 s`, `12 min 5 s`, `3 h 2 min`, `2 d 4 h`."""
    if seconds is None:
        return "unknown"
    whole = int(seconds)
    for size, unit, smaller, small_unit in ((_DAY, "d", _HOUR, "h"), (_HOUR, "h", _MINUTE, "min"), (_MINUTE, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size} {unit}" + (f" {rest} {small_unit}" if rest else "")
    return f"{whole} s"


def moment(epoch: float | None) -> str:
    """In UTC."""
    return "unknown" if epoch is None else time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(epoch))


def number(value: float) -> str:
    """Whole numbers with separators, others with three digits."""
    return f"{value:,.0f}" if value == int(value) else f"{value:,.3g}"
