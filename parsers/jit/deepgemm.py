"""DeepGEMM compiles in silence, unless DG_JIT_DEBUG or DG_JIT_PRINT_COMPILER_COMMAND is set; its C++ half prints without any header."""

import re

from parsers.events import Compiled, CompileFailed, EngineFailure
from parsers.rules import Scope, Series, rule
from parsers.units import label


@rule(
    runtime="",
    anchor=("Running NVCC command: ", "Compiling JIT runtime with NVRTC options: "),
    pattern=r"(?:Running NVCC command: cd |Compiling JIT runtime with NVRTC options: -)[^\n]{1,8192}",
    source=("Running NVCC command: %s", "Compiling JIT runtime with NVRTC options: "),
    samples={
        "deepgemm 0.1.5": "Running NVCC command: cd /var/cache/deep_gemm && /usr/local/cuda/bin/nvcc "
        "/var/cache/deep_gemm/3743189-40fbd983-7dc7f586-d638089b/kernel.cu -cubin -o "
        "/var/cache/deep_gemm/3743189-40fbd983-7dc7f586-d638089b/kernel.cubin -std=c++20 --diag-suppress=39,161,174,177,186,940 "
        "--ptxas-options=--register-usage-level=10 -I/usr/local/lib/python3.12/dist-packages/deep_gemm/include --gpu-architecture=sm_90a "
        "--compiler-options=-fPIC,-O3,-fconcepts,-Wno-deprecated-declarations,-Wno-abi -O3 --expt-relaxed-constexpr --expt-extended-lambda",
        "deepgemm 0.1.5, NVRTC": "Compiling JIT runtime with NVRTC options: -std=c++20 --diag-suppress=39,161,174,177,186,940 "
        "--ptxas-options=--register-usage-level=10 -I/usr/local/lib/python3.12/dist-packages/deep_gemm/include -I/usr/local/cuda/include "
        "--gpu-architecture=sm_90a -default-device --pch --device-int128 ",
    },
    scope=Scope.BARE,
)
def deepgemm_command(_: re.Match[str]) -> Compiled:
    """One kernel, which the command does not name; its end has no line. What `Loading CUBIN` names may come from the cache.

    No series at 0: without those settings it would say that nothing was compiled.
    """
    return Compiled("deepgemm", "compile", "")


@rule(
    runtime="",
    anchor=("NVCC compilation failed: ", "NVCC PTX compilation failed: ", "Corrupted JIT cache directory ("),
    pattern=r"(?:NVCC (?:PTX )?compilation failed: |Corrupted JIT cache directory \([^)\n]{1,96}\): (?:[^\n]{0,512}/kernel\.(\w{1,96})\.)?)[^\n]{0,8192}",
    source=("NVCC compilation failed: %s", "NVCC PTX compilation failed: %s", "Corrupted JIT cache directory ("),
    samples={
        "deepgemm 0.1.5": "Corrupted JIT cache directory (missing kernel.cu or kernel.cubin): "
        "/var/cache/deep_gemm/cache/kernel.sm90_fp8_gemm_1d2d.8f2d4c1b, please run `rm -rf /var/cache/deep_gemm/cache/"
        "kernel.sm90_fp8_gemm_1d2d.8f2d4c1b` and restart your task.",
        "deepgemm 0.1.5, NVCC": "NVCC compilation failed: /var/cache/deep_gemm/3743189-40fbd983/kernel.cu(5): catastrophic error: cannot open "
        'source file "deep_gemm/impls/sm90_fp8_gemm_1d2d.cuh"',
    },
    scope=Scope.BARE,
    emits=[Series("jit_failures_total", {"backend": "deepgemm"})],
)
def deepgemm_failed(found: re.Match[str]) -> CompileFailed:
    """An assertion follows, which ends the step."""
    return CompileFailed("deepgemm", label(found[1] or ""))


@rule(
    runtime="",
    anchor=("DeepGEMM NVLink barrier timeout: rank=", "DeepGEMM grid sync timeout: sm="),
    pattern=r"DeepGEMM (?:(NVLink barrier timeout: rank)|grid sync timeout: sm)=\d{1,9}, [^\n]{1,256}",
    source=("DeepGEMM NVLink barrier timeout: rank=%d", "DeepGEMM grid sync timeout: sm=%u"),
    samples={
        "deepgemm 0.1.5": "DeepGEMM NVLink barrier timeout: rank=3, counter=1, signal=5, target=8, phase=0, sign=0, tag=2",
        "deepgemm 0.1.5, grid": "DeepGEMM grid sync timeout: sm=17, thread=0, grid_sync_idx=1, old=4, current=9, expected_tag=2147483652",
    },
    scope=Scope.BARE,
    emits=[Series("engine_failures_total", {"kind": kind}) for kind in ("collective_timeout", "cuda_error")],
)
def deepgemm_timeout(found: re.Match[str]) -> EngineFailure:
    """A kernel over several GPUs waited in vain for another rank, or for its own blocks; it stops with an error of CUDA."""
    return EngineFailure("collective_timeout" if found[1] else "cuda_error")
