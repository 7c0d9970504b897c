"""Deaths and stalls of a vLLM engine. Several processes tell of one death; the incidents are told apart by kind and time."""

import re

from parsers.events import NOTHING, AddressInUse, EngineFailure, Nothing, TransportError
from parsers.rules import Scope, Series, rule


def _failure(*kinds: str) -> list[Series]:
    return [Series("engine_failures_total", {"kind": kind}) for kind in kinds]


_EXCEPTION = Scope.EXCEPTION | Scope.BARE


@rule(
    anchor="EngineCore ",
    pattern=r"EngineCore (encountered a fatal error\.|failed to start\.|hit an exception: )",
    source=("EngineCore encountered a fatal error.", "EngineCore failed to start.", "EngineCore hit an exception: %s"),
    samples={
        "0.8.3": "EngineCore hit an exception: Traceback (most recent call last):",
        "0.10.2": "EngineCore encountered a fatal error.",
        "0.26.0": "EngineCore encountered a fatal error.",
        "0.32.0": "EngineCore failed to start.",
        "0.33.0": "EngineCore encountered a fatal error.",
    },
    since="0.7",
    emits=_failure("engine_dead", "startup_failed"),
)
def engine_core_failed(found: re.Match[str]) -> EngineFailure:
    """The engine core's own last word; a traceback follows."""
    return EngineFailure("startup_failed" if found[1].startswith("failed") else "engine_dead")


@rule(
    anchor=(
        "AsyncLLM output_handler failed.",
        "EngineCore output handler hit an error: ",
        "[shutdown] MPClient: engine core exited",
        "Engine core proc ",
    ),
    pattern=(
        r"AsyncLLM output_handler failed\.|EngineCore output handler hit an error: |\[shutdown\] MPClient: engine core exited unexpectedly"
        r"|Engine core proc \S{1,64} died unexpectedly"
    ),
    source=(
        "AsyncLLM output_handler failed.",
        "EngineCore output handler hit an error: %s",
        "[shutdown] MPClient: engine core exited unexpectedly; starting cleanup",
        "Engine core proc %s died unexpectedly, shutting down client.",
    ),
    samples={
        "0.8.3": "EngineCore output handler hit an error: Traceback (most recent call last):",
        "0.10.2": "AsyncLLM output_handler failed.",
        "0.11": "Engine core proc EngineCore_DP0 died unexpectedly, shutting down client.",
        "0.26.0": "[shutdown] MPClient: engine core exited unexpectedly; starting cleanup",
        "0.32.0": "AsyncLLM output_handler failed.",
        "0.33.0": "AsyncLLM output_handler failed.",
    },
    since="0.7",
    emits=_failure("engine_dead"),
)
def engine_lost(_: re.Match[str]) -> EngineFailure:
    """The API server finds its engine dead."""
    return EngineFailure("engine_dead")


@rule(
    anchor=("Worker ", "RayWorkerProc rank="),
    pattern=r"(?:(?:Worker proc \S{1,64}|RayWorkerProc rank=\[[\d, ]{1,96}\]) died unexpectedly|Worker \S{1,64} pid \d+ died, exit code)",
    source=(
        "Worker proc %s died unexpectedly, shutting down executor.",
        "Worker proc %s died unexpectedly (exit code: %s), shutting down executor.",
        "RayWorkerProc rank=%s died unexpectedly, shutting down executor.",
        "Worker %s pid %s died, exit code: %s",
    ),
    samples={
        "0.6.6": "Worker VllmWorkerProcess pid 217 died, exit code: -15",
        "0.10.2": "Worker proc VllmWorker-0 died unexpectedly, shutting down executor.",
        "0.20.0": "RayWorkerProc rank=[3] died unexpectedly, shutting down executor.",
        "0.26.0": "Worker proc VllmWorker-3 died unexpectedly (exit code: -9), shutting down executor.",
        "0.32.0": "Worker proc VllmWorker-0 died unexpectedly (exit code: -9), shutting down executor.",
        "0.33.0": "Worker proc VllmWorker-3 died unexpectedly (exit code: -9), shutting down executor.",
    },
    since="0.4",
    emits=_failure("worker_died"),
)
def worker_died(_: re.Match[str]) -> EngineFailure:
    """A worker process is gone. Exit code -9 alone does not prove the kernel's OOM killer."""
    return EngineFailure("worker_died")


@rule(
    anchor=("WorkerProc failed.", "RayWorkerProc failed: "),
    pattern=r"(?:WorkerProc failed\.|RayWorkerProc failed: )",
    source=("WorkerProc failed.", "RayWorkerProc failed: %s"),
    samples={"0.26.0": "WorkerProc failed.", "0.33.0": "RayWorkerProc failed: CUDA driver error: unknown error"},
    since="0.8",
    emits=_failure("worker_died"),
)
def worker_failed(_: re.Match[str]) -> EngineFailure:
    """A worker left its loop; a traceback follows."""
    return EngineFailure("worker_died")


@rule(
    anchor="WorkerProc hit an exception",
    pattern=r"WorkerProc hit an exception[.:]",
    source=("WorkerProc hit an exception.", "WorkerProc hit an exception: %s"),
    samples={
        "0.8.3": "WorkerProc hit an exception: %s",
        "0.10.2": "WorkerProc hit an exception.",
        "0.26.0": "WorkerProc hit an exception.",
        "0.33.0": "WorkerProc hit an exception.",
    },
    since="0.7",
)
def worker_raised(_: re.Match[str]) -> Nothing:
    """A worker hands an exception on and works on: what it was, and whether the engine dies of it, other lines tell."""
    return NOTHING


@rule(
    anchor="ray.exceptions.",
    pattern=r"ray\.exceptions\.(ActorDiedError|RayChannelTimeoutError): ",
    source=(),  # Ray's own wording
    samples={
        "ray": "ray.exceptions.RayChannelTimeoutError: System error: Timed out waiting for object available to read. ObjectID: "
        "00cc316456d39201286bda103a37bbae72e42e380100000004e1f505",
        "ray 2.47.1": "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.",
    },
    scope=Scope.EXCEPTION,
    emits=_failure("worker_died", "rpc_timeout"),
)
def ray_failed(found: re.Match[str]) -> EngineFailure:
    """A worker under Ray is gone, or its step did not come back within RAY_CGRAPH_get_timeout."""
    return EngineFailure("worker_died" if found[1] == "ActorDiedError" else "rpc_timeout")


@rule(
    anchor="WorkerProc failed to start.",
    pattern=r"WorkerProc failed to start\.",
    source="WorkerProc failed to start.",
    samples={"0.26.0": "WorkerProc failed to start."},
    since="0.6",
    emits=_failure("startup_failed"),
)
def worker_start_failed(_: re.Match[str]) -> EngineFailure:
    """A worker did not come up."""
    return EngineFailure("startup_failed")


@rule(
    anchor="RuntimeError: Engine ",
    pattern=r"RuntimeError: Engine (?:core initialization failed|process failed to start)\.",
    source=("Engine core initialization failed. See root cause above. Failed core proc(s): ", "Engine process failed to start."),
    samples={
        "0.8.5": "RuntimeError: Engine process failed to start. See stack trace for the root cause.",
        "0.26.0": "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore': 1}",
        "0.32.0": "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore': 1}",
    },
    since="0.6",
    scope=Scope.EXCEPTION,
    emits=_failure("startup_failed"),
)
def initialisation_failed(_: re.Match[str]) -> EngineFailure:
    """The API server gives up on its engine."""
    return EngineFailure("startup_failed")


@rule(
    runtime="",
    anchor=("torch.OutOfMemoryError: ", "torch.cuda.OutOfMemoryError: ", "RuntimeError: ", "torch.AcceleratorError: "),
    pattern=(
        r"(?:torch\.(?:cuda\.)?OutOfMemoryError|RuntimeError|torch\.AcceleratorError): "
        r"(?:(?:CUDA|HIP|XPU|NPU|HPU) out of memory|(?:CUDA|HIP) error: out of memory)"
    ),
    source=(),  # torch's own wording
    samples={
        "0.8.5": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 270.00 MiB. GPU 1 has a total capacity of "
        "21.98 GiB of which 156.94 MiB is free. Including non-PyTorch memory, this process has 21.80 GiB memory in "
        "use. Of the allocated memory 21.42 GiB is allocated by PyTorch, and 24.12 MiB is reserved by PyTorch but "
        "unallocated. If reserved but unallocated memory is large try setting "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory "
        "Management  (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)",
    },
    scope=Scope.EXCEPTION,
    emits=_failure("gpu_oom"),
)
def gpu_out_of_memory(_: re.Match[str]) -> EngineFailure:
    """A rank ran out of device memory."""
    return EngineFailure("gpu_oom")


@rule(
    anchor="ray.exceptions.OutOfMemoryError: ",
    pattern=r"ray\.exceptions\.OutOfMemoryError: ",
    source=(),  # Ray's own wording
    samples={
        "0.8.0": "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.",
    },
    scope=Scope.EXCEPTION,
    emits=_failure("host_oom"),
)
def host_out_of_memory(_: re.Match[str]) -> EngineFailure:
    """Ray killed a worker because the host ran out of memory."""
    return EngineFailure("host_oom")


@rule(
    anchor=("vllm.engine.async_llm_engine.AsyncEngineDeadError: ", "vllm.engine.multiprocessing.MQEngineDeadError: "),
    pattern=r"vllm\.engine\.(?:async_llm_engine\.AsyncEngineDeadError|multiprocessing\.MQEngineDeadError): ",
    source="Engine loop is not running. Inspect the stacktrace to find the original error: ",
    samples={
        "0.6.6": "vllm.engine.multiprocessing.MQEngineDeadError: Engine loop is not running. Inspect the stacktrace to find the "
        "original error: RuntimeError('Engine process (pid 187) died.').",
    },
    until="0.10",
    scope=Scope.EXCEPTION,
    emits=_failure("engine_dead"),
)
def v0_engine_dead(_: re.Match[str]) -> EngineFailure:
    """The V0 engine's loop ended."""
    return EngineFailure("engine_dead")


@rule(
    anchor=("vllm.v1.engine.exceptions.EngineDeadError: ", "EngineDeadError: ", "RuntimeError: Engine core process "),
    pattern=(
        r"(?:(?:vllm\.v1\.engine\.exceptions\.)?EngineDeadError: EngineCore encountered an issue\."
        r"|RuntimeError: Engine core process \S{1,64} died unexpectedly\.)"
    ),
    source=("EngineCore encountered an issue. See stack trace (above) for the root cause.", "Engine core process %s died unexpectedly."),
    samples={
        "0.10.2": "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.",
        "0.20.0": "RuntimeError: Engine core process EngineCore_DP0 died unexpectedly.",
        "0.26.0": "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.",
        "0.32.0": "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.",
        "0.33.0": "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.",
    },
    since="0.8",
    scope=Scope.EXCEPTION,
    emits=_failure("engine_dead"),
)
def engine_core_dead(_: re.Match[str]) -> EngineFailure:
    """What the API server raises once its engine core is gone: for each request, or for all where several servers share it."""
    return EngineFailure("engine_dead")


@rule(
    anchor=("Engine iteration timed out.", "Engine background task failed"),
    pattern=r"Engine (?:iteration timed out\.|background task failed)",
    source=("Engine iteration timed out. This should never happen!", "Engine background task failed"),
    samples={"0.6.3": "Engine background task failed", "0.8.5": "Engine iteration timed out. This should never happen!"},
    until="0.10",
    emits=_failure("engine_dead"),
)
def v0_engine_failed(_: re.Match[str]) -> EngineFailure:
    """The V0 engine's loop ends."""
    return EngineFailure("engine_dead")


@rule(
    anchor=("DPSupervisor found ", "DPSupervisor probe found "),
    pattern=r"DPSupervisor (?:found [1-9]\d* exited|probe found [1-9]\d* unhealthy) DP Servers",
    source=("DPSupervisor found %s exited DP Servers.", "DPSupervisor probe found %s unhealthy DP Servers."),
    samples={"0.26.0": "DPSupervisor probe found 1 unhealthy DP Servers.", "0.33.0": "DPSupervisor found 1 exited DP Servers."},
    since="0.22",
    emits=_failure("engine_dead"),
)
def dp_server_exited(_: re.Match[str]) -> EngineFailure:
    """One of the data-parallel servers is gone, or answers no probe after it was ready: the supervisor ends them all."""
    return EngineFailure("engine_dead")


@rule(
    anchor="[Watchdog]Dumped stack to ",
    pattern=r"\[Watchdog\]Dumped stack to ",
    source="[Watchdog]Dumped stack to %s due to %s",
    samples={
        "0.33.0": "[Watchdog]Dumped stack to /var/log/vllm/VLLM_STACK_DUMP_for_engine_0_318.log due to feed timeout",
    },
    since="0.33",
    emits=_failure("hang"),
)
def stack_dumped(_: re.Match[str]) -> EngineFailure:
    """The engine's opt-in watchdog found no progress."""
    return EngineFailure("hang")


_CUDA = (
    r"(?:an illegal memory access was encountered|device-side assert triggered|unspecified launch failure|uncorrectable ECC error"
    r"|no kernel image is available|CUBLAS_STATUS_[A-Z])"
)


@rule(
    runtime="",
    anchor=("RuntimeError: ", "torch.AcceleratorError: "),
    pattern=(
        rf"(?:RuntimeError|torch\.AcceleratorError): (?:(?:Failed: )?CUDA error[ :][^\n]{{0,400}}?{_CUDA}"
        r"|HIP error: |[cC]uDNN error: CUDNN_STATUS_[A-Z])"
    ),
    source=(),  # torch's and CUDA's own wording
    samples={
        "0.10.0": "RuntimeError: CUDA error: no kernel image is available for execution on the device",
        "0.13.0": "torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
        "torch with HIP": "torch.AcceleratorError: HIP error: an illegal memory access was encountered",
        "torch with cuBLAS": "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx( handle, opa, opb, m, n, k, "
        "&falpha, a, CUDA_R_16F, lda, b, CUDA_R_16F, ldb, &fbeta, c, CUDA_R_16F, ldc, CUDA_R_32F, "
        "CUBLAS_GEMM_DFALT_TENSOR_OP)`",
        "torch with cuDNN": "RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED",
    },
    scope=Scope.EXCEPTION,
    emits=_failure("cuda_error"),
)
def cuda_error(_: re.Match[str]) -> EngineFailure:
    """A kernel failed on the device, or there is none for it."""
    return EngineFailure("cuda_error")


@rule(
    runtime="",
    anchor=("torch.distributed.DistBackendError: ", "RuntimeError: "),
    pattern=r"(?:torch\.distributed\.DistBackendError|RuntimeError): NCCL error\b",
    source=(),  # torch's own wording
    samples={
        "0.10.2": "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)",
        "torch": "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1333, "
        "unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.18.1",
    },
    scope=Scope.EXCEPTION,
    emits=[Series("transport_errors_total", {"library": "nccl"})],
)
def nccl_error(_: re.Match[str]) -> TransportError:
    """A collective failed at once on this rank; one that hangs is told by the watchdog."""
    return TransportError("nccl")


@rule(
    anchor="TimeoutError: RPC call to ",
    pattern=r"TimeoutError: RPC call to \w+ timed out",
    source="RPC call to %s timed out.",
    samples={"0.26.0": "TimeoutError: RPC call to execute_model timed out."},
    since="0.6",
    scope=Scope.EXCEPTION,
    emits=_failure("rpc_timeout"),
)
def rpc_timeout(_: re.Match[str]) -> EngineFailure:
    """A step did not come back within VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS."""
    return EngineFailure("rpc_timeout")


@rule(
    runtime="",
    anchor=("[Rank ", "[PG "),
    pattern=r"\[(?:PG [\w ()]{1,96} )?Rank \d{1,5}\] Watchdog caught collective operation timeout",
    source=(),  # torch's own wording
    samples={
        "torch": "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5730, OpType=BROADCAST, "
        "NumelIn=3612672, NumelOut=3612672, Timeout(ms)=600000) ran for 600009 milliseconds before timing out.",
    },
    scope=Scope.BARE,
    emits=_failure("collective_timeout"),
)
def collective_timeout(_: re.Match[str]) -> EngineFailure:
    """NCCL's watchdog: a rank does not answer."""
    return EngineFailure("collective_timeout")


@rule(
    anchor="No available shared memory broadcast block found in ",
    pattern=r"No available shared memory broadcast block found in \d+ seconds?",
    source=(
        "No available shared memory broadcast block found in %s seconds.",
        "No available shared memory broadcast block found in %d seconds.",
        "No available shared memory broadcast block found in %s second.",
    ),
    samples={
        "0.26.0": "No available shared memory broadcast block found in 60 seconds. This typically happens when some processes are "
        "hanging or doing some time-consuming work (e.g. compilation, weight/kv cache quantization).",
        "0.33.0": "No available shared memory broadcast block found in 60 seconds. This typically happens when some processes are "
        "hanging or doing some time-consuming work (e.g. compilation, weight/kv cache quantization).",
    },
    since="0.8",
    emits=_failure("hang"),
)
def broadcast_stuck(_: re.Match[str]) -> EngineFailure:
    """Normal while a start compiles; after it, a rank hangs. Repeated each minute."""
    return EngineFailure("hang")


@rule(
    runtime="",
    anchor="OSError: [Errno 98] ",
    pattern=r"OSError: \[Errno 98\] ",
    source=(),  # Python's own wording
    samples={
        "python 3.11": "OSError: [Errno 98] Address already in use",
    },
    scope=Scope.EXCEPTION,
    emits=_failure("startup_failed"),
)
def address_in_use(_: re.Match[str]) -> AddressInUse:
    """The API server's port is taken; once it serves, another port is meant."""
    return AddressInUse()


@rule(
    runtime="",
    anchor="[Errno 98] error while attempting to bind on address ",
    pattern=r"\[Errno 98\] error while attempting to bind on address \([^()\n]{1,128}\): [\w ]{1,64}$",
    source=(),  # asyncio's own wording, printed by uvicorn
    samples={
        "python 3.11": "[Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): address already in use",
    },
    scope=Scope.BARE,
    emits=_failure("startup_failed"),
)
def bind_failed(_: re.Match[str]) -> EngineFailure:
    """Uvicorn ends since the port is taken; it says that the application started first."""
    return EngineFailure("startup_failed")
