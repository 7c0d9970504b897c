"""A small language for what an exposition must hold: `SELECTOR == 5`, `sum(SELECTOR) ~= 0.3`, `absent(SELECTOR)`."""

import math
import operator
import re
from collections.abc import Callable

from prometheus_client.parser import text_string_to_metric_families

Series = list[tuple[str, dict[str, str], float]]

_EXPECTATION = re.compile(
    r"(?:(?P<function>absent|sum|max|min|count)\((?P<inside>[^()]*)\)|(?P<bare>\w+(?:\{[^}]*\})?))"
    r"(?: (?P<operator>==|~=|>=|<=|>|<) (?P<number>\S+))?"
)
_SELECTOR = re.compile(r"(\w+)(?:\{([^}]*)\})?")
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "==": lambda got, wanted: math.isclose(got, wanted, rel_tol=1e-9, abs_tol=1e-9),
    "~=": lambda got, wanted: abs(got - wanted) <= 0.01 * abs(wanted),
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}


def series_of(exposition: str) -> Series:
    """All samples of a text exposition."""
    return [(s.name, s.labels, s.value) for family in text_string_to_metric_families(exposition) for s in family.samples]


def selected(series: Series, selector: str) -> list[float]:
    """The values of the series that a selector matches; its labels are a subset of theirs."""
    parts = _SELECTOR.fullmatch(selector.strip())
    assert parts, selector
    wanted = dict(_LABEL.findall(parts[2] or ""))
    return [value for name, labels, value in series if name == parts[1] and wanted.items() <= labels.items()]


def check(expectation: str, series: Series) -> None:
    """Raise AssertionError when the expectation does not hold."""
    parts = _EXPECTATION.fullmatch(expectation)
    assert parts, f"cannot read {expectation!r}"
    values = selected(series, parts["inside"] or parts["bare"])
    match parts["function"]:
        case "absent":
            assert not any(values), f"{expectation}: {values}"
            return
        case "sum":
            got = sum(values)
        case "count":
            got = float(len(values))
        case "max" | "min" as function:
            assert values, f"{expectation}: no such series"
            got = max(values) if function == "max" else min(values)
        case _:
            assert len(set(values)) == 1, f"{expectation}: {values}"
            got = values[0]
    assert _OPERATORS[parts["operator"]](got, float(parts["number"])), f"{expectation}: got {got:g}"
