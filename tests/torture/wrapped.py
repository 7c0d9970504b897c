"""How the lines get into each of the logs: bare, in a container runtime's wrapping, as JSON records, and the rules' own samples."""

import json
from collections.abc import Callable

import parsers.stream  # noqa: F401 - registers the rules
from parsers.rules import Rule, Scope, registry
from tests.torture.lines import LINE_LIMIT, UNKNOWN, EngineLog, Line

PART = 4096  # a runtime parts at 16 KiB; shorter parts are more of them


def bare(log: EngineLog) -> list[bytes]:
    """As the engine prints it."""
    return [(line.text + line.end).encode() for line in log.next()]


def cri(log: EngineLog) -> list[bytes]:
    """As kubelet's runtime writes it: long lines in parts, and stderr between the parts of stdout."""
    found = []
    for line in log.next():
        # What stands before a line break is text of the container's; a bar's carriage returns are, too.
        text = line.text + line.end.rstrip("\n")
        parts = [text[at : at + PART] for at in range(0, len(text), PART)] or [""]
        if len(parts) == 1 and len(text) > 40 and log.dice.random() < 0.1:
            cut = log.dice.randrange(1, len(text))
            parts = [text[:cut], text[cut:]]
        for part in parts[:-1]:
            found.append(_cri(log, part, "stdout P"))
            if log.dice.random() < 0.2:
                log.add("log_lines_total", UNKNOWN)
                found.append(_cri(log, f"~ between two parts {log.number}", "stderr F"))
        found.append(_cri(log, parts[-1], "stdout F"))
    return found


def _cri(log: EngineLog, text: str, tag: str) -> bytes:
    nanoseconds = log.dice.randrange(10**9)
    return f"{log.at('%Y-%m-%dT%H:%M:%S')}.{nanoseconds:09d}Z {tag} {text}\n".encode()


def records(log: EngineLog) -> list[bytes]:
    """As vLLM's JSON formatter writes it; what has no header of vLLM's stays as it is."""
    return [(_record(log, line) if line.header.startswith("(") else line.text + line.end).encode() for line in log.next()]


def _record(log: EngineLog, line: Line) -> str:
    process, _, pid = line.who.partition(" pid=")
    entry = {
        "asctime": log.at("%Y-%m-%d %H:%M:%S") + ",431",
        "levelname": line.level,
        "name": "vllm.logger" if "[logger.py" in line.header else "vllm.v1.module",
        "process": int(pid),
        "message": line.message,
        "vllm_process_name": process,
    }
    text = json.dumps(entry, ensure_ascii=log.dice.random() < 0.5)
    if len(text) > LINE_LIMIT:  # what is left of it is no record any more
        log.add("log_lines_total", line.level, by=-1)
        log.add("log_lines_total", UNKNOWN)
        log.add("cut_lines_total", by=len(line.text) <= LINE_LIMIT)
    return text + "\n"


class Zoo:
    """Writes every sample of every rule, in an order of its own each time around, and hostile lines; nothing is tallied."""

    def __init__(self) -> None:
        self._rest: list[tuple[Rule, str]] = []

    def __call__(self, log: EngineLog) -> list[bytes]:
        if log.dice.random() < 0.4:
            return bare(log)
        if log.dice.random() < 0.05:
            return [_hostile(log)]
        log.number += 1
        log.clock += log.dice.choice((0, 0.5, 1, 3))
        if not self._rest:
            self._rest = [(rule, sample) for rule in registry() for sample in rule.samples.values()]
            log.dice.shuffle(self._rest)
        rule, sample = self._rest.pop()
        return [(line.text + line.end).encode() for line in _sample(log, rule, sample)]


def _sample(log: EngineLog, rule: Rule, sample: str) -> list[Line]:
    who = log.dice.choice((log.core(), log.worker(), "APIServer pid=1"))
    if Scope.RECORD in rule.scope:
        lines = [log.line(sample, who, log.dice.choice(("INFO", "INFO", "WARNING", "ERROR")))]
        return lines * 2 if log.dice.random() < 0.1 else lines
    if Scope.EXCEPTION in rule.scope:
        last = log.line(sample, who, "ERROR")
        return [last._replace(message="Traceback (most recent call last):", end="\r\n"), last]
    native = f"I{log.at('%m%d %H:%M:%S')}.{log.number % 1000000:06d}     318 file.cc:{log.number}] "
    return [Line("INFO", log.dice.choice(("", native)), sample)]


def _hostile(log: EngineLog) -> bytes:
    dice, header = log.dice, log.line("").header
    return dice.choice(
        (
            b"~" + dice.randbytes(dice.randint(1, 300)).replace(b"\n", b"") + b"\n",
            b"\0" * dice.randint(1, 50) + f"{header}after a hole\n".encode(),
            f"\x1b[32m{header}\x1b[0mcoloured {log.number}\n".encode(),
            f"Loading: 10%|# | 1/9 [00:01<00:09, 1.0it/s]{header}glued to a bar {log.number}\n".encode(),
            f"{header}{'x' * dice.choice((65_000, 70_000, 300_000))}\n".encode(),
            f"{header}torn {log.number}"[: dice.randint(1, 60)].encode() + b"\n",
            b'{"levelname": "INFO", "message": "' + str(log.number).encode() + b"\n",
            b"\n",
        )
    )


FORMATS: dict[str, Callable[[], Callable[[EngineLog], list[bytes]]]] = {
    "engine": lambda: bare,
    "zoo": Zoo,
    "cri": lambda: cri,
    "records": lambda: records,
}
TALLIED = ("engine", "cri", "records")
"""Sources whose counters the writer knows by itself."""
