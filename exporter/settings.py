"""What an engine process was started with, as far as its log tells."""

import hashlib
from collections.abc import Iterator

from exporter.counters import Sample
from exporter.known_bad import Version, version_of
from exporter.pd_evidence import BLOCK_TOKENS
from exporter.verdict import PairSettings, PdSettings, role_of
from parsers.connectors import connector_label
from parsers.events import EngineSettings, EngineStarted, KvCacheSize

_INFO = ("version", "model", "kv_connector", "kv_role", "kv_load_failure_policy", "spec_method", "kv_cache_dtype")
_CEILINGS = {
    "max_model_len": "max_model_len_tokens",
    "max_batched_tokens": "max_batched_tokens",
    "max_running_requests": "max_running_requests",
}
_DIMENSIONS = ("tp", "pp", "dp", "ep")
_MORIIO_SINCE = (0, 14)
_UNSET = frozenset({"", "auto", "None"})
_LABELS_OF_THEIR_OWN = frozenset({"version", "model", "model_path"})


class Settings:
    """The settings of one process; numbers among them are digits, as `EngineSettings` promises."""

    STATE = ("values", "_complete", "_at_least")

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self._complete = False
        self._at_least: Version | None = None

    @property
    def version(self) -> Version | None:
        """Major and minor, or what they are at the least where only the form of the lines tells; None while unknown."""
        return version_of(self.values.get("version", "")) or self._at_least

    def is_since(self, version: Version) -> None:
        """A line has a form that came with this version: for logs that begin behind the start lines."""
        self._at_least = max(version, self._at_least or version)

    @property
    def connector(self) -> str:
        """The `connector` label of the KV connector; empty without one, and for one that holds others."""
        return connector_label(self.values.get("kv_connector", ""))

    def whose_handshake(self, where: str) -> str:
        """NIXL or MoRIIO, for words that were the former's to 0.13 and are the latter's since; `where` is the header's file."""
        if self.connector in ("nixl", "moriio"):
            return self.connector
        moriio = self.version >= _MORIIO_SINCE if self.version else "moriio" in where
        return "moriio" if moriio else "nixl"

    @property
    def method(self) -> str:
        """How the engine speculates, empty when it does not or that is not known."""
        return self.values.get("spec_method", "")

    @property
    def ranks(self) -> int:
        """Workers of one engine core; 1 while unknown, or where a line says that there are none."""
        return max(1, int(self.values.get("tp", "1")) * int(self.values.get("pp", "1")))

    @property
    def alone(self) -> bool:
        """Whether the engine is known to have one worker: then lines without a process name are all of it."""
        return self.values.get("tp") == "1" and all(self.values.get(dim, "1") == "1" for dim in ("pp", "dp"))

    def started(self, event: EngineStarted) -> None:
        """What a start line tells; what was said before it counts more than a default."""
        if event.version:
            self.values["version"] = event.version
        for key, value in event.settings.items():
            if value not in _UNSET or key not in self.values:
                self.values[key] = value
        self._complete = self._complete or event.complete

    def told(self, event: EngineSettings) -> None:
        """The first word counts: later ones are about the draft model."""
        for key, value in event.values.items():
            if event.overrides or key not in self.values:
                self.values[key] = value
        self._complete = self._complete or event.complete

    def pair_seen(self, role: str) -> None:
        """Periodic lines show the engine's part in a pair, or that it has none."""
        if not role:
            self._complete = self._complete or "kv_role" not in self.values
        elif not self._complete:
            self.values.setdefault("kv_role", role)

    @property
    def page(self) -> int | None:
        """Tokens in a page of the KV pool."""
        return int(self.values["block_size"]) if "block_size" in self.values else None

    def kv_cache(self, event: KvCacheSize) -> None:
        """The longest request, by which the engine states its concurrency."""
        if event.concurrency is not None and event.request_tokens is not None:
            self.values["max_model_len"] = f"{event.request_tokens:.0f}"

    def role(self, configured: str | None) -> str:
        """The engine's part in a pair, as configured or as far as its log tells."""
        kv_role = self.values.get("kv_role")
        return role_of(configured, kv_role, no_connector=self._complete and not self.values.get("kv_connector") and not kv_role)

    def pd(self, pair: PairSettings, bytes_per_token: float | None, *, from_start: bool) -> PdSettings:
        """What the verdict on prefill/decode disaggregation needs to know."""
        values, role = self.values, self.role(pair.role)
        # A log that does not tell the role may be of an engine without any pair, whose arguments it does not show.
        expect = pair.expect or ("all" if role == "decode" else "mixed")
        return PdSettings(
            role=role,
            expect_all=expect == "all",
            local_is_meant=pair.expect == "mixed",
            version=self.version,
            fails_on_load_error=values.get("kv_load_failure_policy") == "fail",
            block_tokens=max(BLOCK_TOKENS, float(values.get("block_size", "0"))),
            ranks=self.ranks,
            compares_hashes=values.get("handshake_compat") != "off",
            bytes_per_token=bytes_per_token,
            limits=pair.limits,
            from_start=from_start,
        )

    def digest(self) -> str:
        """Eight hexadecimal digits that differ when a setting does; the version and the model's name are labels already."""
        text = "\n".join(f"{key}={value}" for key, value in sorted(self.values.items()) if key not in _LABELS_OF_THEIR_OWN)
        return hashlib.blake2b(text.encode(errors="replace"), digest_size=4).hexdigest()

    def samples(self) -> Iterator[Sample]:
        """The settings as labels, and those that are numbers as values."""
        values = self.values
        model = values.get("model") or values.get("model_path", "")
        if values.get("version") or model or values.get("kv_connector"):
            labels = {**values, "model": model}
            yield Sample("engine_info", (*(labels.get(name, "") for name in _INFO), self.digest()), 1)
        for key, family in _CEILINGS.items():
            if key in values:
                yield Sample(family, (), float(values[key]))
        for dimension in _DIMENSIONS:
            if dimension in values:
                yield Sample("engine_parallel_size", (dimension,), float(values[dimension]))
        if values.get("expert_parallel") == "on" and "tp" in values:  # vLLM spreads the experts over all ranks of a pipeline stage
            yield Sample("engine_parallel_size", ("ep",), float(values["tp"]) * float(values.get("dp", "1")))
        for key, family in (("draft_length", "spec_draft_length"), ("draft_block", "spec_block_size")):
            if key in values and self.method:
                yield Sample(family, (self.method,), float(values[key]))
