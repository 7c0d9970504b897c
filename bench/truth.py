"""What a reader must find in a corpus, and whether an exposition says so."""

import json
import math
import re
from collections.abc import Collection
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

_SELECTOR = re.compile(r'(\w+)(?:\{(\w+)="([^"]*)"\})?')
_TOLERANCE = 1e-9  # sums of fractions; whole numbers have to be equal


class Truth:
    """Values by selector (`family`, or `family{label="value"}`), summed over all other labels."""

    def __init__(self) -> None:
        self.bytes = 0
        self.lines = 0
        self.values: dict[str, float] = {}

    def add(self, selector: str, by: float = 1) -> None:
        """A counter rises."""
        self.values[selector] = self.values.get(selector, 0) + by

    def set(self, selector: str, value: float) -> None:
        """A gauge is so from now on."""
        self.values[selector] = value

    def forget(self, selectors: Collection[str]) -> None:
        """Gauges of an engine process that another one took the place of."""
        for selector in selectors:
            self.values.pop(selector, None)

    def save(self, path: Path) -> None:
        """Beside the corpus."""
        path.write_text(json.dumps(vars(self), indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> "Truth":
        """As it was saved."""
        truth = cls()
        vars(truth).update(json.loads(path.read_text(encoding="utf-8")))
        return truth

    def wrong(self, exposition: str, prefix: str = "inferlog_", only: Collection[str] | None = None) -> list[str]:
        """Where an exposition says something else; of the families in `only` when they are given."""
        samples = [sample for family in text_string_to_metric_families(exposition) for sample in family.samples]
        found = []
        for selector, wanted in self.values.items():
            shape = _SELECTOR.fullmatch(selector)
            assert shape, selector
            family, label, value = shape.groups()
            if only is not None and selector not in only:
                continue
            values = [each.value for each in samples if each.name == prefix + family and (not label or each.labels.get(label) == value)]
            if not (values or wanted == 0) or not math.isclose(sum(values), wanted, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE):
                found.append(f"{selector}: {sum(values) if values else 'nothing'} instead of {wanted}")
        return found
