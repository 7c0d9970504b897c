"""The logs that are measured, each with its truth: made once, kept in bench/corpora, the same bytes each time."""

import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from bench import hostile
from bench.records import Records
from bench.truth import Truth

ROOT = Path(__file__).parent.parent
CORPORA = Path(__file__).parent / "corpora"
_BLOCK = 4 * 1024 * 1024
_RECORDS_A_SECOND = 500
_YEAR = 2026
_RARE = {"compile": 50, "recompute": 18, "compatible": 13, "expired": 12.8, "handshake": 6, "start": 0.2}


def _mix(access: int, request: int, stats: int, transfers: int, speculation: int, rare: int) -> dict[str, float]:
    """Weights of the kinds of records."""
    common = {"access": access, "request": request, "stats": stats, "transfers": transfers, "speculation": speculation}
    return common | {kind: rare * weight / 100 for kind, weight in _RARE.items()}


MIXES = {"typical": _mix(760, 140, 40, 20, 20, 20), "dense": _mix(420, 80, 200, 100, 100, 100)}
"""By records: of a typical log nine in ten are access lines and requests, of a dense one half."""


class Corpus(NamedTuple):
    """A log, and what is in it."""

    path: Path
    truth: Truth


def engine_log(kind: str, size: int, *, seed: int = 1, starts: int = 1) -> tuple[Iterator[bytes], Truth]:
    """A log of at least so many bytes, block by block, that begins with so many starts of the engine. The truth is whole at its end."""
    records = Records(seed)
    return _blocks(records, MIXES[kind], size, starts), records.truth


def _blocks(records: Records, mix: dict[str, float], size: int, starts: int) -> Iterator[bytes]:
    kinds, weights = [getattr(records, kind) for kind in mix], list(mix.values())
    truth = records.truth
    for _ in range(starts):
        records.start()
        records.next_second()
    while truth.bytes < size:
        for record in records.random.choices(kinds, weights, k=_RECORDS_A_SECOND):
            record()
        records.next_second()
        if truth.bytes + sum(map(len, records.lines)) >= size:
            records.stats(external=True)
            records.stats(external=False)  # what the last line leaves out was told before
        truth.lines += len(records.lines)
        block = ("\n".join(records.lines) + "\n").encode()
        records.lines.clear()
        truth.bytes += len(block)
        yield block
    truth.set("log_lines_total", truth.lines)


def captured(size: int) -> tuple[Iterator[bytes], Truth]:
    """The logs of real engines in tests/data, one after the other until they make so many bytes. Only their lines are known."""
    logs = sorted(log for engine in ("sglang", "vllm") for log in (ROOT / "tests" / "data").glob(f"{engine}-*/captured-*.log"))
    block = b"".join(log.read_bytes().rstrip(b"\n") + b"\n" for log in logs)
    truth, copies = Truth(), -(-size // len(block))
    truth.bytes, truth.lines = copies * len(block), copies * block.count(b"\n")
    truth.set("log_lines_total", truth.lines)
    return (block for _ in range(copies)), truth


def wrapped(log: Corpus, wrap: str) -> Iterator[bytes]:
    """A log as a container runtime keeps it."""
    sys.path.insert(0, str(ROOT))
    from tests.wrappings import WRAPS
    from tests.wrappings import wrapped as lines_in

    with log.path.open("rb") as whole:
        rest = b""
        while block := whole.read(_BLOCK):
            block, _, rest = (rest + block).rpartition(b"\n")
            yield b"".join(lines_in(block + b"\n", WRAPS[wrap], _YEAR))


def corpus(kind: str, size: int, *, starts: int = 1) -> Corpus:
    """A corpus of this kind and about this size: `typical`, `dense`, `hostile`, `captured`, or `typical-cri` and `typical-docker`."""
    name, wrap = kind.partition("-")[::2]
    makers: dict[str, Callable[[], tuple[Iterator[bytes], Truth]]] = {
        "captured": lambda: captured(size),
        "hostile": lambda: hostile.log(size),
    }
    if wrap:
        bare = corpus(name, size)
        return _kept(f"{kind}-{size}", lambda: (wrapped(bare, wrap), bare.truth))
    return _kept(f"{kind}-{size}-{starts}", makers.get(kind, lambda: engine_log(kind, size, starts=starts)))


def _kept(name: str, make: Callable[[], tuple[Iterator[bytes], Truth]]) -> Corpus:
    """A corpus that is made if it is not there, or was made by other code."""
    sources = (Path(__file__), Path(__file__).with_name("records.py"), Path(__file__).with_name("hostile.py"))
    code = zlib.crc32(b"".join(source.read_bytes() for source in sources))
    path = CORPORA / f"{name}-{code:08x}.log"
    told = path.with_suffix(".truth.json")
    if not (path.exists() and told.exists()):
        CORPORA.mkdir(exist_ok=True)
        for old in CORPORA.glob(f"{name}-????????.*"):
            old.unlink()
        blocks, truth = make()
        with path.open("wb") as file:
            file.writelines(blocks)
        truth.save(told)
    return Corpus(path, Truth.load(told))
