"""Which incident a line tells of, and which state the engine is in after it."""

import pytest

from .conftest import CORE, RANK0, READY, core, line, logo, read

DEAD = "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause."
IN_USE = "OSError: [Errno 98] Address already in use"
BIND = "ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): address already in use"


def error(message: str, who: str = CORE) -> str:
    """A record of level ERROR while the engine serves."""
    return line(message, who, "03:20:00", level="ERROR")


def raised(exception: str, who: str = CORE) -> list[str]:
    """A record with a traceback that ends in the exception."""
    return [error(each, who) for each in ("Some step failed.", "Traceback (most recent call last):", exception)]


@pytest.mark.parametrize(
    ("lines", "expected", "state"),
    [
        pytest.param([error("WorkerProc hit an exception.", RANK0)], {}, "serving", id="worker-hands-an-exception-on"),
        pytest.param(
            [error("WorkerProc hit an exception.", RANK0), *raised("torch.OutOfMemoryError: CUDA out of memory.", RANK0)],
            {"gpu_oom": 1},
            "serving",
            id="and-the-cause",
        ),
        pytest.param([error("WorkerProc failed.", RANK0)], {"worker_died": 1}, "failed", id="worker-left-its-loop"),
        pytest.param(
            [
                error("WorkerProc failed.", RANK0),
                error("Worker proc VllmWorker-0 died unexpectedly (exit code: 1), shutting down executor."),
            ],
            {"worker_died": 1},
            "failed",
            id="one-death-two-lines",
        ),
        pytest.param([error("RayWorkerProc failed: boom", RANK0)], {"worker_died": 1}, "failed", id="ray-worker"),
        pytest.param(raised("ray.exceptions.ActorDiedError: The actor died"), {"worker_died": 1}, "failed", id="ray-actor"),
        pytest.param(raised("ray.exceptions.RayChannelTimeoutError: System error"), {"rpc_timeout": 1}, "stalled", id="ray-channel"),
        pytest.param(raised(DEAD), {"engine_dead": 1}, "failed", id="engine-dead-in-a-traceback"),
        pytest.param([error(DEAD)], {"engine_dead": 1}, "failed", id="engine-dead-as-a-record"),
        pytest.param([error("AsyncLLM output_handler failed."), *raised(DEAD)], {"engine_dead": 1}, "failed", id="one-dead-engine"),
        pytest.param([error("Engine iteration timed out. This should never happen!")], {"engine_dead": 1}, "failed", id="v0-iteration"),
        pytest.param([error("Engine background task failed")], {"engine_dead": 1}, "failed", id="v0-task"),
        pytest.param([line("DPSupervisor probe found 2 unhealthy DP Servers.")], {"engine_dead": 1}, "failed", id="probe"),
        pytest.param([line("DPSupervisor probe found 0 unhealthy DP Servers.")], {}, "serving", id="probe-of-none"),
        pytest.param(
            raised("RuntimeError: CUDA error: no kernel image is available for execution"), {"cuda_error": 1}, "serving", id="image"
        ),
        pytest.param(raised("RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED"), {"cuda_error": 1}, "serving", id="cublas"),
        pytest.param(raised("RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"), {"cuda_error": 1}, "serving", id="cudnn"),
        pytest.param(raised("RuntimeError: HIP error: invalid device function"), {"cuda_error": 1}, "serving", id="hip"),
        pytest.param(raised("RuntimeError: HIP error: out of memory"), {"gpu_oom": 1}, "serving", id="hip-oom"),
        pytest.param(raised("torch.distributed.DistBackendError: NCCL error in: x.cpp:77"), {}, "serving", id="nccl-is-no-incident"),
        pytest.param(raised(IN_USE), {}, "serving", id="port-taken-while-serving"),
    ],
)
def test_line_while_serving_tells_of_its_incident(lines: list[str], expected: dict[str, float], state: str) -> None:
    """A death ends the engine; a fault of one step does not by itself."""
    reading = read(logo(), core(), READY, *lines)

    assert expected == {labels[0]: value for labels, value in reading.series("engine_failures_total").items() if value}
    assert state == reading.state


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(["Traceback (most recent call last):", IN_USE], id="vllm-binds"),
        pytest.param([BIND], id="uvicorn-binds"),
        pytest.param([READY, BIND, "INFO:     Waiting for application shutdown."], id="uvicorn-binds-after-the-application-started"),
        pytest.param([error("WorkerProc failed.", RANK0)], id="worker"),
    ],
)
def test_start_that_fails_is_one_incident(lines: list[str]) -> None:
    """A port that is taken, or a worker that ends, while the engine starts."""
    reading = read(logo(), *lines)

    assert {"startup_failed": 1} == {labels[0]: value for labels, value in reading.series("engine_failures_total").items() if value}
    assert "failed" == reading.state


def test_nccl_errors_are_counted_for_the_library() -> None:
    """Each exception of each rank; what dies of it is told by other lines."""
    reading = read(
        logo(), *raised("torch.distributed.DistBackendError: NCCL error in: x.cpp:77", RANK0), *raised("RuntimeError: NCCL error: y")
    )

    assert 2 == reading.value("transport_errors_total", "nccl")


@pytest.mark.parametrize(
    ("message", "level", "unknown"),
    [
        ("Dumping input data for V1 LLM engine (v0.26.0) with config: model='/models/x', ", "ERROR", 0),
        ("Dumping scheduler output for model execution: SchedulerOutput(scheduled_new_reqs=[])", "ERROR", 0),
        ("WorkerProc hit an exception.", "ERROR", 0),
        ("Add 2 padding layers, may waste at most 7.14% KV cache memory", "WARNING", 0),
        ("Chat template render timed out — executor pool replaced (4 worker(s)).", "WARNING", 0),
        ("Unexpected: grammar rejected tokens [1] for request x. Terminating request.", "ERROR", 0),
        ("Unexpected: grammar accepted tokens [1] for request x.", "ERROR", 1),
        ("Missing cached draft probabilities for request x; sampling again", "WARNING", 1),
    ],
)
def test_routine_lines_do_not_hide_what_is_unknown(message: str, level: str, unknown: float) -> None:
    """A warning or an error that is known to mean nothing is not counted among those that nobody knows."""
    assert unknown == read(logo(), line(message, level=level)).value("unrecognised_lines_total", level)
