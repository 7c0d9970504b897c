"""Spans of time as people write them."""

import re

IMMEDIATE = "immediate"
LONGEST_SECONDS = 86_400.0

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds_of(value: object) -> float:
    """`10m`, `90s`, `1h`, a number of seconds, or `immediate` for none, up to a day. Raises ValueError."""
    match = re.fullmatch(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)([smh]?)", str(value)) if not isinstance(value, bool) else None
    if value == IMMEDIATE:
        return 0.0
    if not match or (seconds := float(match[1]) * _UNITS[match[2]]) > LONGEST_SECONDS:
        raise ValueError('expected a duration of at most a day such as "10m", or "immediate"')
    return seconds
