"""A measured sweep: what first token, prefill and decode took by prompt length and concurrency. Between rows it is interpolated, never guessed."""

import csv
import math
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import NamedTuple

MEASURES = ("ttft_seconds", "prefill_tokens_per_second", "decode_tokens_per_second", "aggregate_tokens_per_second")
_REQUIRED = ("prompt_tokens", "concurrency", *MEASURES)
_ANCHOR = "anchor"
EXAMPLE = "example"
"""In the place of a file: the table that is shipped, of two DGX Sparks."""

MEASURED, INTERPOLATED, SHORTEST, ANCHORED = "measured", "interpolated", "of the shortest measured prompt", "towards a measured anchor"


class SweepError(ValueError):
    """What is wrong with a table, in one line."""


class Row(NamedTuple):
    """One measurement; None where a cell is empty. An anchor is a single one far beyond the others."""

    prompt: float
    concurrency: int
    values: dict[str, float | None]
    anchor: bool


class Estimate(NamedTuple):
    """What the table says of one prompt length and concurrency; None where it does not. `basis` says how."""

    values: dict[str, float | None]
    basis: str | None
    why_not: str = ""


def load(path: str) -> list[Row]:
    """The rows of a table in a CSV file. Raises SweepError and OSError."""
    if path == EXAMPLE:
        text = (resources.files("exporter") / "analysis" / "two-dgx-spark.csv").read_text(encoding="utf-8")
    else:
        try:
            text = Path(path).read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise SweepError("not a text file") from error
    reader = csv.DictReader(text.splitlines())
    missing = [name for name in _REQUIRED if name not in (reader.fieldnames or ())]
    if missing:
        raise SweepError(f"columns are missing: {', '.join(missing)}")
    rows = [_row(number, cells) for number, cells in enumerate(reader, 2)]
    if not rows:
        raise SweepError("no row")
    places = [(row.prompt, row.concurrency) for row in rows]
    if twice := next((place for place in places if places.count(place) > 1), None):
        raise SweepError(f"measured twice: prompt {twice[0]:.0f}, concurrency {twice[1]}")
    return rows


def _row(number: int, cells: dict[str, str | None]) -> Row:
    try:
        values = {name: float(text) if (text := (cells[name] or "").strip()) else None for name in MEASURES}
        prompt, concurrency = float(cells["prompt_tokens"] or ""), int(cells["concurrency"] or "")
    except ValueError as error:
        raise SweepError(f"line {number}: {error}") from error
    if not all(math.isfinite(value) and value > 0 for value in (prompt, concurrency, *values.values()) if value is not None):
        raise SweepError(f"line {number}: a measurement is a number above 0")
    return Row(prompt, concurrency, values, anchor=(cells.get(_ANCHOR) or "").strip().lower() in ("yes", "true", "1"))


def estimate(rows: Iterable[Row], prompt: float, concurrency: int) -> Estimate:
    """What the table tells of requests of one length, so many at a time."""
    rows = list(rows)
    column = sorted((row for row in rows if row.concurrency == concurrency), key=lambda row: row.prompt)
    nothing: dict[str, float | None] = dict.fromkeys(MEASURES)
    if not column:
        known = ", ".join(map(str, sorted({row.concurrency for row in rows})))
        return Estimate(nothing, None, f"concurrency {concurrency} was not measured, only {known}")
    if prompt <= column[0].prompt:
        return Estimate(column[0].values, MEASURED if prompt == column[0].prompt else SHORTEST)
    above = next((row for row in column if row.prompt >= prompt), None)
    if above is None:
        return Estimate(nothing, None, f"prompts over {column[-1].prompt:,.0f} tokens were not measured at concurrency {concurrency}")
    if above.prompt == prompt:
        return Estimate(above.values, MEASURED)
    below = column[column.index(above) - 1]
    values = {name: _between(below, above, name, prompt) for name in MEASURES}
    return Estimate(values, ANCHORED if above.anchor else INTERPOLATED)


def _between(below: Row, above: Row, name: str, prompt: float) -> float | None:
    """On a straight line between two measurements, both axes logarithmic."""
    low, high = below.values[name], above.values[name]
    if low is None or high is None:
        return None
    share = math.log(prompt / below.prompt) / math.log(above.prompt / below.prompt)
    return math.exp(math.log(low) + share * (math.log(high) - math.log(low)))
