"""Spans of time and zones as people write them."""

import re

IMMEDIATE = "immediate"
LONGEST_SECONDS = 86_400.0

_LARGEST_ZONE_MINUTES = 14 * 60
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds_of(value: object) -> float:
    """`10m`, `90s`, `1h`, a number of seconds, or `immediate` for none, up to a day. Raises ValueError."""
    match = re.fullmatch(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)([smh]?)", str(value)) if not isinstance(value, bool) else None
    if value == IMMEDIATE:
        return 0.0
    if not match or (seconds := float(match[1]) * _UNITS[match[2]]) > LONGEST_SECONDS:
        raise ValueError('expected a duration of at most a day such as "10m", or "immediate"')
    return seconds


def zone_seconds(text: str) -> float:
    """`+08:00` in seconds east of UTC. Raises ValueError."""
    match = re.fullmatch(r"([+-])([0-9]{2}):([0-5][0-9])", text)
    if not match or (minutes := int(match[2]) * 60 + int(match[3])) > _LARGEST_ZONE_MINUTES:
        raise ValueError('expected an offset from UTC such as "+08:00", at most 14 hours')
    return minutes * (-60.0 if match[1] == "-" else 60.0)
