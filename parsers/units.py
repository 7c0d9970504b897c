"""Numbers as engines print them, in base units."""

import re
from functools import lru_cache

MIB = 2.0**20
GIB = 2.0**30
MILLISECOND = 1e-3
PERCENT = 1e-2

LARGEST = 1e18
"""No counter can rise by so much in one interval."""

NUMBER = r"(\d[\d,]{0,20})"
"""A whole number with thousands separators, for `whole`."""
DECIMAL = r"(-?\d{1,15}(?:\.\d{1,9})?)"

_UNSAFE = re.compile(r"[^\w.+/@:-]", re.ASCII)
_LABEL_LENGTH = 96


def whole(text: str) -> float:
    """`1,761,280` as a number."""
    return float(text.replace(",", ""))


@lru_cache(512)
def label(text: str) -> str:
    """Free text of an engine in the characters and the length that a label may have."""
    return _UNSAFE.sub("_", text)[:_LABEL_LENGTH]


def base_name(path: str) -> str:
    """The last part of a model's path or repository name."""
    return label(path.rstrip("/").rpartition("/")[2])
