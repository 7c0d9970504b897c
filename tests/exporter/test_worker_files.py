"""Files of Ray's workers: their lines name no process, their names do."""

import pytest

from exporter.worker_files import origin_of

from .conftest import Reading

FOLDER = "/logs/ray/session_latest/logs"
WEIGHTS = "INFO 07-14 03:10:01 [gpu_model_runner.py:1] Model loading took 35.64 GiB memory and {seconds} seconds"
TILELANG = "2026-07-14 03:10:{at}  [TileLang:tilelang.jit.kernel:INFO] (kernel.py:137): TileLang {what} to compile kernel `K1`"
MONITOR = (
    "WARNING 07-14 03:10:40 [jit_monitor.py:103] Triton kernel JIT compilation during inference: _k1. This causes a latency spike; consider "
    "extending warmup to cover this shape/config."
)
TUNED = "Triton autotuning for function fused,\nwith key as (1,),\nfinished after {seconds}s,\nbest config selected: x;"
SCALES = (
    "WARNING 07-14 03:10:50 [kv_cache.py:165] Using KV cache scaling factor 1.0 for fp8_e4m3. If this is unintended, verify that k/v_scale "
    "scaling factors are properly set in the checkpoint."
)
CHECKED = "INFO 07-14 03:10:55 [base_worker.py:1] NIXL compatibility check passed (hash: abc)"
GIB = 2**30


def name(rank: int, ending: str = "out", job: str = "01000000") -> str:
    """A worker's file, as Ray calls it."""
    return f"{FOLDER}/worker-{rank:056x}-{job}-{2300 + rank}.{ending}"


def feed(reading: Reading, file: str, *lines: str) -> None:
    """Some lines of one of the files."""
    reading.source.feed("".join(f"{each}\n" for each in lines).encode(), None, file)


def workers(*, beside: str = "out") -> Reading:
    """Four ranks that say the same, one after the other; what they compile may be in the second file of each."""
    reading = Reading()
    for rank in range(4):
        feed(reading, name(rank), ":job_id:01000000", ":actor_name:RayWorkerWrapper", WEIGHTS.format(seconds=70.4 + rank))
    for rank in range(4):
        feed(reading, name(rank, beside), TILELANG.format(at=20, what="begins"), TILELANG.format(at=30, what="completes"))
    for rank in range(4):
        feed(reading, name(rank), MONITOR, SCALES, CHECKED)
        feed(reading, name(rank, beside), TUNED.format(seconds=f"3.4{rank}"))
    return reading


@pytest.mark.parametrize("beside", ["out", "err", "out.1"])
def test_the_same_fact_of_several_workers_is_one(beside: str) -> None:
    """One compile of 10 s and one tuning of 3.43, one sighting of a hazard, and four ranks."""
    reading = workers(beside=beside)
    compiles = {labels: value for labels, value in reading.series("jit_events_total").items() if value}
    assert {labels[:2]: value for labels, value in compiles.items()} == {
        ("tilelang", "compile"): 1,
        ("triton", "compile"): 1,
        ("triton", "autotune"): 1,
    }
    seconds = {labels[0]: value for labels, value in reading.series("jit_seconds_total").items() if value}
    assert seconds == {"tilelang": 10, "triton": pytest.approx(3.43)}
    assert reading.value("config_hazards_total", "fp8_kv_unscaled") == 1
    assert reading.value("kv_compatible_ranks", "nixl") == 4
    assert reading.value("kv_compatibility_checks_total", "nixl", "passed") == 4


def test_the_memory_of_a_rank_is_its_own() -> None:
    """Each has weights of 35.64 GiB; the slowest took 73.4 s for them."""
    reading = workers()
    assert reading.series("engine_memory_bytes") == {("", "weights"): pytest.approx(35.64 * GIB)}
    assert reading.value("startup_seconds", "load_weights") == pytest.approx(73.4)


def test_a_worker_that_repeats_itself_tells_of_another_fact() -> None:
    """In whichever of its two files."""
    reading = workers()
    feed(reading, name(0, "err"), MONITOR)
    assert reading.value("jit_events_total", "triton", "compile", "serving") == 2


def test_lines_that_name_their_process_keep_it() -> None:
    """From 0.11 on workers have a prefix, with the rank in it."""
    reading = Reading()
    feed(reading, name(0), "(Worker_TP1 pid=455) " + WEIGHTS.format(seconds=1))
    assert reading.series("engine_memory_bytes").keys() == {("TP1", "weights")}


@pytest.mark.parametrize(
    ("file", "same"),
    [
        (name(1), True),
        (name(1, "err"), True),
        (name(1, "err.12"), True),
        (name(1).rpartition("/")[2], True),
        (name(2), False),
        (name(1, job="02000000"), False),
    ],
)
def test_a_worker_is_known_by_its_files(file: str, *, same: bool) -> None:
    """Wherever they lie."""
    mine, its = origin_of(name(1)), origin_of(file)
    assert mine is not None
    assert its is not None
    assert (mine.who == its.who) is same
    assert its.process == its.rank == ""


@pytest.mark.parametrize("file", ["", "engine.log", f"{FOLDER}/raylet.out", f"{FOLDER}/worker-secret-01000000-1.out", f"{name(1)}.gz"])
def test_any_other_file_tells_nothing_of_a_process(file: str) -> None:
    """It may be one of several that one process writes, or several may write it."""
    assert origin_of(file) is None
