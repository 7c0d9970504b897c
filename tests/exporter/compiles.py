"""Lines about compiles that several tests use, and what was counted of them."""

from .conftest import RANK0, READY, Reading, core, line, logo

KERNEL = "hc_pre_kernel"
STARTED = (logo(), core())
SERVING = (*STARTED, READY)


def monitor(kernel: str = KERNEL, who: str = RANK0, at: str = "03:16:00", library: str = "TileLang") -> str:
    """vLLM's own warning of a compile during inference."""
    text = f"{library} JIT compilation during inference: {kernel}. This causes a latency spike; consider extending warmup."
    return line(text, who, at, level="WARNING")


def begins(at: str, who: str = "", kernel: str = KERNEL) -> str:
    """TileLang begins; behind the process prefix up to 0.32, bare from 0.33 on."""
    text = f"2026-07-14 {at}  [TileLang:tilelang.jit.kernel:INFO] (kernel.py:137): TileLang begins to compile kernel `{kernel}` with `out_idx=None`"
    return f"({who}) {text}" if who else text


def ends(at: str, who: str = "", kernel: str = KERNEL) -> str:
    """TileLang completes."""
    text = f"2026-07-14 {at}  [TileLang:tilelang.jit.kernel:INFO] (kernel.py:145): TileLang completes to compile kernel `{kernel}`"
    return f"({who}) {text}" if who else text


def events(reading: Reading) -> dict[tuple[str, ...], float]:
    """The counted compiles."""
    return {labels: value for labels, value in reading.series("jit_events_total").items() if value}


def seconds(reading: Reading, backend: str) -> dict[str, float]:
    """The measured seconds by phase."""
    return {phase: value for (each, phase), value in reading.series("jit_seconds_total").items() if each == backend and value}
