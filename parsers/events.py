"""The events that rules make. Units are base units: seconds, bytes, ratios from 0 to 1."""

from typing import NamedTuple, TypeAlias

from parsers.gateway_events import (
    GatewayAnswered,
    GatewayAsked,
    GatewayFailed,
    GatewayForwarded,
    GatewayKvParams,
    GatewayMode,
    GatewayPrefilled,
    GatewayRouted,
)
from parsers.startup_events import DraftCaptureBegan as DraftCaptureBegan
from parsers.startup_events import MemoryReport as MemoryReport
from parsers.startup_events import MemoryUsed as MemoryUsed
from parsers.startup_events import PhaseBegan as PhaseBegan
from parsers.startup_events import PhaseFinished as PhaseFinished
from parsers.startup_events import StartupTimings as StartupTimings


class Nothing(NamedTuple):
    """A line that is known and means nothing; with `quotes_users`, what follows in its record is not the engine's."""

    quotes_users: bool = False


NOTHING = Nothing()
QUOTED = Nothing(quotes_users=True)


class EngineStarted(NamedTuple):
    """A line that an engine process prints once, at its start; `line` says which of them, `settings` what it adds."""

    line: str
    version: str
    settings: dict[str, str] = {}  # noqa: RUF012 - never written to
    complete: bool = False
    """Whether settings that are absent are known to be unset."""


class ContainerStarted(NamedTuple):
    """The log of another container begins, by its place: whatever it runs is a new process."""


class EngineSettings(NamedTuple):
    """Settings as the engine states them; `complete` when absent ones are known to be unset (the argument line)."""

    values: dict[str, str]
    complete: bool = False
    overrides: bool = False


class EngineReady(NamedTuple):
    """The HTTP server accepts requests."""


class WarmupFailed(NamedTuple):
    """The engine's own first request failed; its ready line, which it prints all the same, is not to be believed."""


class EngineStopping(NamedTuple):
    """An orderly shutdown began."""


class EngineFailure(NamedTuple):
    """One record that tells of a failure; several make one incident."""

    kind: str


class AddressInUse(NamedTuple):
    """A server could not bind its port: a failure while the engine starts."""


class UncaughtException(NamedTuple):
    """The last line of a traceback that no logger printed."""


class Component(NamedTuple):
    """A library or kernel backend in use."""

    component: str
    value: str


class Hazard(NamedTuple):
    """The engine runs with a setting that is known to hurt."""

    kind: str
    detail: str = ""


class KvCacheBytes(NamedTuple):
    """Bytes of one rank's KV cache."""

    bytes: float


class KvCacheSize(NamedTuple):
    """Capacity of one engine's KV pool; `concurrency` requests of `request_tokens` tokens fit."""

    pool: str
    tokens: float | None = None
    request_tokens: float | None = None
    concurrency: float | None = None


class KvPools(NamedTuple):
    """Pools of one engine in tokens, and one rank's bytes of them where the line has them.

    The first word of a process counts, later ones are about the draft model; with `resized` the last one. `whole` for
    the sum of pools that other lines tell apart.
    """

    tokens: dict[str, float]
    bytes: float | None = None
    resized: bool = False
    whole: bool = False
    free: float | None = None
    """Bytes of device memory that are left."""


class DraftMismatch(NamedTuple):
    """Drafts of another length than the blocks that the draft model was trained for."""

    length: str
    block: str


class StateCacheSlots(NamedTuple):
    """Capacity of a recurrent model's state cache, in requests."""

    slots: float


class CeilingsTold(NamedTuple):
    """The engine's limits, with the tokens of its whole KV pool."""

    settings: dict[str, str]
    tokens: float
    free: float | None = None
    """Bytes of device memory that are left to the first rank."""


class PrefillBatch(NamedTuple):
    """One prefill batch. None where the line has no such field; `usage` by pool, `queues` by name."""

    requests: float | None
    computed: float | None
    cached: float | None
    running: float | None
    queues: dict[str, float]
    usage: dict[str, float]
    rate: float | None = None
    hits: float | None = None
    idle: bool = False
    """Whether no other request was there, as when a health probe comes."""


class DecodeBatch(NamedTuple):
    """What an engine says of its running batch every so many steps; `length` includes the bonus token. None as above."""

    running: float | None
    queues: dict[str, float]
    usage: dict[str, float]
    rate: float | None = None
    length: float | None = None
    ratio: float | None = None
    pair: bool = False
    """Whether the engine decodes what another one prefilled."""
    verified: dict[str, float] = {}  # noqa: RUF012 - never written to
    """What DSpark says of blocks that it does not verify whole: the `cap`, and the lengths `block` and `uncapped` (`_low`, `_high`)."""


class HealthAnswered(NamedTuple):
    """A health check that makes the engine generate a token was answered with success."""


class HealthCheckFailed(NamedTuple):
    """The engine did not answer its own health check."""


class Retracted(NamedTuple):
    """Requests lost their place in the KV pool and start again later."""

    requests: float


class Truncated(NamedTuple):
    """A request was longer than the engine accepts and was cut."""


class IntervalStats(NamedTuple):
    """One periodic line. None where the line has no such field."""

    engine: str
    prompt_rate: float
    generation_rate: float
    running: float
    waiting: float
    deferred: float | None = None
    kv_fetch: float | None = None
    kv_usage: float | None = None
    pool: str = "device"
    local_hits: float | None = None
    external_hits: float | None = None
    multimodal_hits: float | None = None
    swapped: float | None = None
    host_usage: float | None = None


class PrefixHits(NamedTuple):
    """The hit rate of the local prefix cache, where it has a line of its own."""

    ratio: float


class SpecTotals(NamedTuple):
    """Speculative decoding as totals since the engine's start (V0)."""

    accepted: float
    drafted: float
    ratio: float


class Preempted(NamedTuple):
    """Requests preempted since the engine's start (V0)."""

    total: float


class SpecInterval(NamedTuple):
    """Speculative decoding in one interval; `length` includes the bonus token, `positions` may be empty."""

    accepted: float
    drafted: float
    length: float | None
    ratio: float
    positions: tuple[float, ...] = ()


class KvTransferInterval(NamedTuple):
    """KV transfers of one interval, summed over the ranks of one engine; means where the line has means."""

    connector: str
    transfers: float
    mean_seconds: float
    p90_seconds: float
    mean_post_seconds: float | None
    mean_bytes: float
    bytes_per_second: float
    descriptors: float
    failed: float | None = None
    expired: float | None = None
    late: float | None = None
    """Reads that were notified after their request had expired."""


class KvMoved(NamedTuple):
    """What a connector moved to and from a store in one interval, both ways together. None where its line has no such number."""

    connector: str
    transfers: float | None
    seconds: float | None
    bytes: float | None
    failed: float | None


class KvTransferIntervals(NamedTuple):
    """The same of several connectors on one line (MultiConnector)."""

    parts: tuple[KvTransferInterval | KvMoved, ...]


class KvTransferFailure(NamedTuple):
    """One failure record of a connector (empty where two share the words), `loopback` when the peer's address is this host.

    `request` is private, and so are the `others` of a record that names several.
    """

    connector: str
    reason: str
    request: str | None = None
    loopback: bool = False
    others: tuple[str, ...] = ()


class KvRoomFailed(NamedTuple):
    """A rank's word that the KV of one request did not come over. `request` is private; the ranks of an engine tell of one failure."""

    reason: str
    request: str | None


class KvRoomMixedUp(NamedTuple):
    """A rank's word that a request got what was sent for another one, and was ended. `request` is private."""

    request: str


class KvRequestMoved(NamedTuple):
    """The KV of one request came over."""

    seconds: float | None
    bytes: float | None


class KvCompatibility(NamedTuple):
    """The outcome of one rank's compatibility check with a remote engine."""

    connector: str
    result: str


class KvTransferPlan(NamedTuple):
    """How a rank maps to the ranks of the remote engine."""

    local_tp: str
    remote_tp: str
    tp_ratio: str


class KvExpired(NamedTuple):
    """Prefill freed a request's blocks that nobody had fetched. `request` is private."""

    connector: str
    request: str


class KvLateRead(NamedTuple):
    """Blocks were read after their request had expired. `request` is private."""

    connector: str
    request: str


class KvRecomputed(NamedTuple):
    """The scheduler computes prompts again whose KV could not be loaded."""

    requests: float
    tokens: float


class KvLoadFailed(NamedTuple):
    """The scheduler fails requests whose KV could not be loaded."""

    requests: float


class KvLoadSkipped(NamedTuple):
    """A worker leaves out the post-processing of a request whose load failed. `request` is private."""

    request: str


class KvParamsRefused(NamedTuple):
    """The engine could not use the transfer parameters that a request brought."""


class KvPeerChanged(NamedTuple):
    """Another engine answers at the remote address: what was known of compatibility is void."""


class HybridKvCache(NamedTuple):
    """The KV connector works with hybrid KV groups, where failed loads mark no block invalid (vLLM to 0.26)."""


class KvTransports(NamedTuple):
    """The transports that reach a peer's memory, as its connection was set up; `local` for a peer on the same machine."""

    names: tuple[str, ...]
    local: bool = False


class TransportError(NamedTuple):
    """One native ERROR record of a transport library."""

    library: str


class Compiled(NamedTuple):
    """A kernel was compiled or tuned. `serving` when the engine itself says that it was during inference, `raised` by an exception."""

    backend: str
    event: str
    kernel: str
    seconds: float | None = None
    serving: bool = False
    raised: bool = False


class CompiledLate(NamedTuple):
    """A kernel was compiled after the engine's event loop had begun: while it serves, or for its own first request (SGLang)."""

    backend: str
    event: str
    kernel: str
    seconds: float


class CompileSession(NamedTuple):
    """A compile begins whose end has no line of its own: a progress bar may tell of it, or what the process does next."""

    backend: str
    event: str
    kernel: str


class CompileBegan(NamedTuple):
    """A compile that will end in `CompileEnded` of the same process, backend and kernel."""

    backend: str
    event: str
    kernel: str


class CompileEnded(NamedTuple):
    """The end of what `CompileBegan` told. What took less than `least` was a load from a cache."""

    backend: str
    event: str
    kernel: str
    seconds: float | None = None
    least: float = 0.0


class CompileFailed(NamedTuple):
    """A compile came to nothing, or what an earlier one left is broken."""

    backend: str
    kernel: str


class CompilerSeen(NamedTuple):
    """Some compiler is at work; for whom is not told."""


class CompileTook(NamedTuple):
    """The duration of the last `Compiled` of this process and backend, printed on a line of its own.

    A progress bar does not tell whose it is: it is of whichever process has a compile without a duration.
    """

    backend: str
    seconds: float
    of_a_bar: bool = False


class CompileCache(NamedTuple):
    """A compiled graph, by its range of shapes, came from a cache (hit) or was made (miss)."""

    backend: str
    result: str
    graph: str = ""


class HttpResponses(NamedTuple):
    """Access lines since the last such event, by class of status code, without probes and scrapes."""

    counts: dict[str, int]
    generated: int = 0
    """Those of 2xx that made the engine generate."""


class Unread(NamedTuple):
    """A line begins as those of a signal do, and no rule reads it. Without a signal: a word of a main process that only what went before can explain."""

    signal: str


Event: TypeAlias = (
    Nothing | EngineStarted | EngineSettings | EngineReady | EngineStopping | EngineFailure | UncaughtException | Component | Hazard
    | PhaseFinished | MemoryReport | PrefixHits | SpecTotals | Preempted | KvCacheBytes | KvCacheSize | IntervalStats | SpecInterval | KvTransferInterval | KvTransferIntervals
    | KvMoved | KvTransferFailure | KvCompatibility | KvTransferPlan | KvExpired | KvLateRead | KvRecomputed | KvLoadFailed
    | KvLoadSkipped | KvParamsRefused | KvPeerChanged | HybridKvCache | TransportError | Compiled | CompileBegan | CompileEnded
    | CompileTook | CompileCache | DraftCaptureBegan | AddressInUse | HttpResponses
    | WarmupFailed | ContainerStarted | PhaseBegan | StartupTimings | KvPools | StateCacheSlots | CeilingsTold | PrefillBatch | DecodeBatch | HealthAnswered
    | HealthCheckFailed | Retracted | Truncated | DraftMismatch | KvRoomFailed | KvRoomMixedUp | KvRequestMoved | CompiledLate | CompileSession
    | KvTransports | CompileFailed | CompilerSeen | Unread
    | GatewayAsked | GatewayRouted | GatewayForwarded | GatewayMode | GatewayKvParams | GatewayPrefilled | GatewayFailed | GatewayAnswered
)  # fmt: skip

PRIVATE_FIELDS = frozenset({"request", "others", "detail"})
"""Fields that may hold text of a user: deduplicated by hash, never shown."""
