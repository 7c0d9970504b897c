"""Lines that no rule knows: which of them are a signal in other words, or may be one."""

import re

from parsers.events import EngineFailure, Event, Unread
from parsers.header import UNKNOWN_LEVEL, Head
from parsers.likeness import SGLANG, VLLM, alike
from parsers.matching import Matcher
from parsers.wordings import is_new

# What a warning or an error begins with, where no level tells.
_FAILURE = re.compile(
    r"(?:[\w.'-]{1,32}:? ){0,4}?(?:[\w.]{0,64}(?:[Ee]rror|Exception)|[Ff]ailed|[Ff]ailure|[Ff]atal|[Tt]raceback|[Tt]imed out|crashed)\b",
    re.ASCII,
)


class UnknownLines(Matcher):
    """Looks at what all rules have left."""

    def __init__(self) -> None:
        """Nothing has failed yet."""
        super().__init__()
        self._failed = False
        """Whether a process of SGLang's failed and the main process has not said a word since."""

    def _is_strange(self, line: str, start: int, head: Head) -> bool:
        """Whether a line of vLLM's below WARNING looks like a signal's, or is none that its source file has said at INFO in any release."""
        if unread := alike(VLLM, line, start):
            self._emit(unread, head)
        elif head.level == "INFO" and self.runtime == "vllm" and is_new(head.where, line, start):
            self._count_unknown("INFO")
        else:
            return False
        return True

    def _unknown_of_sglang(self, line: str, start: int, head: Head) -> None:
        """A record without a level: it stands out when it begins like a failure or a signal, or where a word of the main process is due."""
        if _FAILURE.match(line, start):
            self._count_unknown(UNKNOWN_LEVEL)
        elif unread := alike(SGLANG, line, start):
            self._emit(unread, head)
        elif not head.origin.who and (self._failed or not self._responses_in_order):
            # It says that it ends the engine, after a failure, and that the engine is ready, after its own first request.
            self._failed = False
            self._flush_responses(head)
            self._emit(Unread(""), head)

    def _unknown_of_nobody(self, line: str, start: int, head: Head) -> None:
        """A record behind SGLang's header before anything told that it is SGLang's."""
        if unread := alike(SGLANG, line, start):
            self._emit(unread, head)

    def _look_for_failure(self, event: Event) -> None:
        self._failed = self._failed or type(event) is EngineFailure

    def _count_unknown(self, level: str) -> None:
        self.unrecognised[level] = self.unrecognised.get(level, 0) + 1
