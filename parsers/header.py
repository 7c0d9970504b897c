"""Line anatomy: colour codes, process prefixes, and the headers of vLLM, SGLang, uvicorn and the native libraries."""

import re
from calendar import monthrange, timegm
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple
from zlib import crc32

from parsers.events import Event, Nothing

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
UNKNOWN_LEVEL = "unknown"
ALARMING = frozenset({"WARNING", "ERROR", "CRITICAL"})

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# The escape byte spelt out (^[) or lost in a paste.
_CODE = r"\[\d{1,3}(?:;\d{1,3}){0,4}m"
_LOST_ESCAPE, _SPELT_ESCAPE = re.compile(_CODE), re.compile(rf"(?:\^\[)?{_CODE}")

# (Worker_TP0 pid=4), Ray's (RayWorkerWrapper pid=4, ip=10.0.0.2) and (ServeReplica:app:LLMServer pid=4)
_PREFIXES = r"(?:\(([A-Za-z_][\w:./-]{0,127}+)((?: rank=\d{1,9}+)?(?: pid=\d{1,9}+)?(?:, ip=[\w.:]{1,63}+)?)\) )"
_LEVEL = r"(DEBUG|INFO|WARNING|ERROR|CRITICAL)"
_VLLM = r" ++(\d\d-\d\d \d\d:\d\d:\d\d) \[?+([\w./-]++:\d++)\] "

HEADER = re.compile(rf"{_PREFIXES}*+{_LEVEL}(?:: ++|{_VLLM})", re.ASCII)
"""Groups: process, its identity, level, time, source line. uvicorn's header (`INFO:     `) has neither of the last two."""
HEADER_FIRST = frozenset("(DIWEC")
"""What HEADER can begin with."""

_SGLANG = r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
SGLANG_HEADER = re.compile(
    r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{3})?)"
    r"((?: (?:DP|PP|ATTN_CP|MOE_DP|TP|EP)\d{1,5}){0,6}| encode_server| encode_dp_worker\[\d{1,5}\])\] ",
    re.ASCII,
)
"""Groups: time, ranks in whatever order the release prints them. It has no level, and without parallelism no rank."""

# VLLM_LOGGING_PREFIX stands before the process prefix (0.33) or glued to the level (before); grep puts a file name there. No
# quotes and braces: those are around what somebody sent.
_PREFIX = r"(?:\([A-Za-z_][\w:./-]*+[^()\n]{0,80}\) )"
_BEFORE_HEADER = re.compile(
    rf"({_PREFIX}*+)[\w.:/@|>()\[\]-]{{1,128}}?(?={_PREFIX}*+(?:DEBUG|INFO|WARNING|ERROR|CRITICAL){_VLLM})", re.ASCII
)
# A platform's own time, or the file that grep names, before SGLang's header.
_BEFORE_SGLANG = re.compile(rf"[\w.:/@|>()\[\]-]{{1,128}}? ?(?={_SGLANG})", re.ASCII)
# A user's own format: [2026-07-14 03:12:07][loggers.py:310][INFO]: message
BRACKETS = re.compile(r"((?:\[[^\[\]\n]{0,64}\] ?){1,4}):? ?(?=\S)")
BRACKETED_LEVEL = re.compile(rf"\b{_LEVEL}\b")
BRACKETED_SOURCE = re.compile(r"[\w./-]{1,96}\.py(?::\d{1,6})?", re.ASCII)
BRACKETED_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?Z?", re.ASCII)
PROCESS_PREFIX = re.compile(rf"{_PREFIXES}+", re.ASCII)
FULL_HEADER = re.compile(rf"{_PREFIXES}*+{_LEVEL}{_VLLM}", re.ASCII)

# Progress bars end without a line break, so that the next record begins right behind them.
_BAR_THEN_HEADER = re.compile(r"(?:it/s|s/it|\?it)\](?=\([A-Za-z]|DEBUG|INFO|WARNING|ERROR|CRITICAL|\[\d{4}-)")

_NATIVE = (
    # TileLang: 2026-07-14 03:14:54  [TileLang:tilelang.jit.kernel:INFO] (kernel.py:137): message
    re.compile(r"(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)  \[TileLang:[\w.]++:(?P<level>[A-Z]++)\] \((?P<where>[\w.]++:\d++)\): "),
    # FlashInfer: 2026-04-27 00:21:32,102 - INFO - autotuner.py:457 - flashinfer.jit: message; without the file up to 0.2
    re.compile(r"(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) - (?P<level>[A-Z]++) - (?:(?P<where>[\w.]{1,96}:\d++) - )?flashinfer\.jit: "),
    # TileLang's autotuner: 2026-07-14 03:14:54,201 INFO:message
    re.compile(r"(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) (?P<level>INFO|WARNING|ERROR):(?P<where>)(?=\S)"),
    # NIXL's Python half: 2026-11-29 13:09:43 NIXL INFO    _api.py:405 message
    re.compile(r"(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) NIXL (?P<level>[A-Z]++) ++(?P<where>\w++\.py:\d++) "),
    # LMCache: [2025-08-21 07:17:09,753] LMCache INFO: message
    re.compile(r"\[(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\] LMCache(?P<where>) (?P<level>[A-Z]++): "),
    # UCX: [1795957114.706278] [host:11078:0]   ucp_worker.c:1997 UCX  INFO  message; before an endpoint's transports the worker's name
    re.compile(
        r"\[(?P<epoch>\d{9,10}\.\d{6})\] \[(?:[^\[\]:\n]{1,255}:(?P<process>\d{1,10}) *:)?[^\[\]\n]{1,64}\] ++(?P<where>[\w.-]++:\d++) ++UCX ++(?P<level>[A-Z]++) ++"
        r"(?:[^\s()]{1,255} (?=(?:self|int(?:ra|er)-node) cfg#))?"
    ),
    # absl and torch: E1129 13:13:11.832085    2604 nixl_agent.cpp:1437] message, torch with [rank3]: and brackets around
    re.compile(
        r"(?:\[rank\d++\]:)?\[?(?P<glog>[VDIWEFC])(?P<time>\d{3,4} \d\d:\d\d:\d\d\.\d++) ++(?:(?P<process>\d{1,20}) )?(?P<where>[\w./-]++:\d++)\] "
    ),
    re.compile(r"\[rank\d++\]:\[(?P<glog>[DIWEFC])(?P<time>) (?P<where>[\w./-]++:\d++)\] "),  # torch to 2.3
)  # fmt: skip
# By the first character: those of brackets, of absl alone, and of digits.
_NATIVE_BY_FIRST = {"[": _NATIVE[4:]} | dict.fromkeys("VDIWEFC", _NATIVE[6:7]) | dict.fromkeys("0123456789", _NATIVE[:4])
_UCX_LEVELS = {"WARN": "WARNING", "FATAL": "CRITICAL", "DIAG": "INFO", "TRACE": "DEBUG"}
_GLOG_LEVELS = {"V": "DEBUG", "D": "DEBUG", "I": "INFO", "W": "WARNING", "E": "ERROR", "F": "CRITICAL", "C": "CRITICAL"}

_DIMENSION = r"(?:DP|PP|PCP|ATTN_CP|MOE_DP|TP|DCP|EP)"
_RANK = re.compile(rf"(?:^|_)({_DIMENSION}\d{{1,5}}(?:_{_DIMENSION}\d{{1,5}}){{0,5}})$", re.ASCII)
_DP_RANK = re.compile(r"(?:^|(?<!MOE)_)DP(\d{1,4})(?:_|$)|^EngineCore_(\d{1,4})$", re.ASCII)


class Origin:
    """The process that prints, as its prefix names it: `(Worker_DP1_TP3 pid=455)`; of SGLang the ranks alone (`DP1_TP3`)."""

    __slots__ = ("dp_rank", "process", "rank", "who")

    def __init__(self, process: str, identity: str) -> None:
        """`identity` is what follows the name in the prefix; names alone are not unique (`Worker`, Ray's workers)."""
        self.process = process
        self.who = process + identity
        rank, dp_rank = _RANK.search(process), _DP_RANK.search(process)
        self.rank = rank[1] if rank else ""
        """The parallel part as printed (`TP0`, `DP1_TP3`), empty for a plain worker."""
        self.dp_rank = (dp_rank[1] or dp_rank[2]) if dp_rank else "0"


NOBODY = Origin("", "")


@dataclass(slots=True)
class Head:
    """What stands around a message.

    `time` is seconds by the log's own clock (its zone taken for UTC), `wrapped_time` the text of the container runtime's,
    `parent` the event of the record that the line continues. `quotes_users` of a request logger, whose text is not the engine's.
    `container` is the name that the wrapping gave, where it did.
    """

    origin: Origin
    level: str
    time: float | None
    where: str = ""
    parent: Event | None = None
    wrapped_time: str | None = None
    quotes_users: bool = False
    container: str = ""


@lru_cache(256)
def place(where: str) -> int:
    """A source line as a number: to be told from others without being kept, since a forged header may hold anything."""
    return crc32(where.encode(errors="replace"))


@dataclass(slots=True)
class Record:
    """The last record of a process, to which its further lines belong; `raised` when a traceback has begun in it."""

    key: tuple[float | None, int]
    event: Event | None
    raised: bool = False

    @property
    def quotes_users(self) -> bool:
        """Whether what follows is no word of the engine."""
        return type(self.event) is Nothing and self.event.quotes_users


class NativeHead(NamedTuple):
    """The header of a library that does not use the engine's logging, and where its message begins."""

    level: str
    time: str
    where: str
    end: int
    process: str = ""
    """The number that tells the ranks apart: of a process, or of one of its threads."""
    epoch: str = ""
    """UCX's time, which is UTC whatever the zone of the other times in the log."""


def strip_colour(text: str) -> str:
    """The text without colour codes."""
    return _COLOUR.sub("", text) if "\x1b" in text else text


def strip_broken_colour(line: str) -> str:
    """A line without colour codes that lost their escape byte."""
    if "[" not in line:
        return line
    # A search for a bracket is ten times as fast as one for what may stand before it.
    return (_SPELT_ESCAPE if "^[" in line else _LOST_ESCAPE).sub("", line)


def late_header(line: str) -> str:
    """The record behind a progress bar that has no line break, or behind what a user or a tool put before the header; or nothing."""
    if ("it]" in line or "/s]" in line) and (bar := _BAR_THEN_HEADER.search(line)) and begins_record(line, bar.end()):
        return line[bar.end() :]
    if before := _BEFORE_SGLANG.match(line):
        return line[before.end() :]
    before = _BEFORE_HEADER.match(line)
    return before[1] + line[before.end() :] if before else ""


def begins_record(line: str, start: int) -> bool:
    """Whether the full header of an engine stands at `start`."""
    return (FULL_HEADER.match(line, start) or SGLANG_HEADER.match(line, start)) is not None


def native_head(text: str, start: int) -> NativeHead | None:
    """The header of TileLang, FlashInfer, NIXL, UCX, absl or torch at `start`."""
    for shape in _NATIVE_BY_FIRST.get(text[start : start + 1], ()):
        if found := shape.match(text, start):
            told = found.groupdict("")
            glog, level = told.pop("glog", ""), told.pop("level", "")
            level = _GLOG_LEVELS.get(glog) or _UCX_LEVELS.get(level, level)
            return NativeHead(level, told.pop("time", ""), told.pop("where"), found.end(), **told)
    return None


_FULL_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(Z|[+-]\d\d:?\d\d)?", re.ASCII)
_VLLM_TIME = re.compile(r"(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)", re.ASCII)
_GLOG_TIME = re.compile(r"(\d{1,2})(\d\d) (\d\d):(\d\d):(\d\d)\.(\d++)", re.ASCII)
_EPOCH = re.compile(r"\d{9,10}\.\d{6}", re.ASCII)
_ROLLOVER_MONTHS = 6
_FIRST_YEAR = 2000


class LogClock:
    """Reads the times that the headers print. Times without a year get the last year seen, which rolls over in January."""

    STATE = ("year", "last", "_last_month", "_month")

    def __init__(self, year: int, month: int = 12) -> None:
        """`year` and `month` are those of the last line: a first line of a later month is from the year before."""
        self.year = year
        self._last_month = month
        self.last: float | None = None
        self._month = 0
        self.text = ""

    def read(self, text: str) -> float | None:
        """Seconds since the epoch with the printed zone, or UTC without one; the last time read when it is no time."""
        if text != self.text:
            self.text = text
            try:
                self.last = self._parse(text)
            except (ValueError, OverflowError):  # 13-45 99:99:99 in a forged or torn line
                return self.last
        return self.last

    def _parse(self, text: str) -> float | None:
        if found := _VLLM_TIME.fullmatch(text):
            month, day, hour, minute, second = map(int, found.groups())
            return self._of_month(month, day, hour, minute, second)
        if found := _GLOG_TIME.fullmatch(text):
            month, day, hour, minute, second = map(int, found.groups()[:5])
            return self._of_month(month, day, hour, minute, second) + float(f"0.{found[6]}")
        if found := _FULL_TIME.fullmatch(text):
            year, month, day, hour, minute, second = map(int, found.groups()[:6])
            if year < _FIRST_YEAR:
                raise ValueError  # Go's zero time, or a torn year
            seconds = _seconds(year, month, day, hour, minute, second) + float(f"0.{found[7] or 0}")
            self.year, self._month = year, month
            return seconds - _zone_seconds(found[8])
        if _EPOCH.fullmatch(text):
            return float(text)
        return self.last

    def _of_month(self, month: int, day: int, hour: int, minute: int, second: int) -> float:
        year = self.year
        if not self._month and month > self._last_month:
            year -= 1
        elif self._month - month > _ROLLOVER_MONTHS:
            year += 1
        elif self._month and month - self._month > _ROLLOVER_MONTHS:
            year -= 1  # a line of December that comes late, after the first of January
        seconds = _seconds(year, month, day, hour, minute, second)
        self.year, self._month = year, month
        return seconds


def _seconds(year: int, month: int, day: int, hour: int, minute: int, second: int) -> float:
    if not (hour < 24 and minute < 60 and second < 61):  # noqa: PLR2004 - a clock's
        raise ValueError
    return float(_midnight(year, month, day) + 3600 * hour + 60 * minute + second)


@lru_cache(256)  # a log's lines are of a few days
def _midnight(year: int, month: int, day: int) -> int:
    if not 0 < day <= monthrange(year, month)[1]:
        raise ValueError
    return timegm((year, month, day, 0, 0, 0))


def _zone_seconds(text: str | None) -> float:
    if not text or text == "Z":
        return 0.0
    digits = text[1:].replace(":", "")
    seconds = int(digits[:2]) * 3600 + int(digits[2:]) * 60
    return float(seconds if text[0] == "+" else -seconds)
