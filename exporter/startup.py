"""In which phase a start is, as far as lines tell where one begins and ends."""

from typing import Final

from parsers.header import Head

PHASES = ("distributed_init", "load_weights", "compile", "kv_profile", "jit_warmup", "autotune", "graph_capture", "graph_capture_draft", "init_engine")  # fmt: skip
UNTOLD: Final = "unknown"
"""No phase has begun, or the one that has ended is followed by another that no line tells of."""

_ENDS = {"torch_compile": "compile"}
_WITHIN_INIT = frozenset(PHASES) - {"distributed_init", "init_engine"}
"""What follows the end of one of these, until another begins, is more of the engine's initialisation."""

_OPEN_PHASES = 1024
_PROCESS_LIMIT = 1024


class StartupPhase:
    """The phase that began last, with the processes that are in it."""

    STATE = ("name", "since", "began", "_within")

    def __init__(self) -> None:
        self.name: str = UNTOLD
        self.since: Head | None = None
        """When it began, or the one before ended."""
        self.began: dict[tuple[str, str], float] = {}
        """When (by the log's clock) phases of single processes began to whose ends lines give no duration."""
        self._within: set[str] = set()

    def start(self, head: Head | None) -> None:
        """A process begins; None when none is known."""
        self._go(UNTOLD, head)

    def begin(self, phase: str, head: Head) -> None:
        """A process enters a phase, the first of them or one more."""
        if phase != self.name:
            self._go(phase, head)
        if len(self._within) < _PROCESS_LIMIT:
            self._within.add(head.origin.who)

    def begin_untimed(self, phase: str, head: Head) -> None:
        """The same, and no line gives it a duration: its end is told by another line."""
        self.begin(phase, head)
        if head.time is not None and len(self.began) < _OPEN_PHASES:
            self.began[phase, head.origin.who] = head.time

    def end_untimed(self, phase: str, head: Head) -> float | None:
        """How long it took the process; None where that is not known."""
        began = self.began.pop((phase, head.origin.who), None)
        return head.time - began if began is not None and head.time is not None and head.time >= began else None

    def end(self, phase: str, head: Head) -> None:
        """A process leaves a phase; it is over when nobody is left in it."""
        phase = _ENDS.get(phase, phase)
        if phase == "init_engine":
            self._go(UNTOLD, head)
        elif phase == self.name:
            self._within.discard(head.origin.who)
            if not self._within:
                self._go("init_engine" if phase in _WITHIN_INIT else UNTOLD, head)
        elif phase in _WITHIN_INIT and self.name in (UNTOLD, "distributed_init"):
            self._go("init_engine", head)  # its beginning has no line

    def _go(self, phase: str, head: Head | None) -> None:
        self.name, self.since = phase, head
        self._within.clear()
