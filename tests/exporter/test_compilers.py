"""Compilers under the engines, in their own words: what is one compile, what is a load, and what failed."""

import pytest

from .compiles import SERVING, begins, ends, events, monitor, seconds
from .conftest import RANK0, RANK1, Reading, line, read


def counted(reading: Reading, family: str) -> dict[tuple[str, ...], float]:
    """What is not 0."""
    return {labels: value for labels, value in reading.series(family).items() if value}


def flashinfer(text: str, at: str, level: str = "INFO") -> str:
    """A record of FlashInfer's, without a process name from vLLM 0.32 on."""
    return f"2026-07-14 {at} - {level} - core.py:457 - flashinfer.jit: {text}"


def rocm(text: str, who: str = RANK0) -> str:
    """A record of AITER's, which has no time."""
    return f"({who}) [aiter] {text}"


def phase(text: str, at: str = "03:16:09") -> str:
    """TileLang's own diagnosis."""
    return f"2026-07-14 {at}  [TileLang:tilelang.jit.diagnostics:INFO] (diagnostics.py:43): TileLang JIT phase {text}"


COMPILED = "cache.compile elapsed=11.482s backend='tvm_ffi', kernel='hc_pre_kernel', target='cuda'"
NVCC = "Running NVCC command: cd /var/cache && /usr/local/cuda/bin/nvcc /var/cache/kernel.cu -cubin -o /var/cache/kernel.cubin -O3"


@pytest.mark.parametrize(
    ("lines", "count", "total"),
    [
        pytest.param(
            [begins("03:16:00"), phase("done: lower elapsed=2.100s kernel='hc_pre_kernel'"), ends("03:16:09")], 1, 9, id="a-part-of-it"
        ),
        pytest.param([begins("03:16:00"), ends("03:16:11"), phase(f"done: {COMPILED}", "03:16:11")], 1, 11.482, id="with-its-pair"),
        pytest.param([phase(f"start: {COMPILED}"), phase(f"done: {COMPILED}")], 1, 11.482, id="alone"),
        pytest.param([begins("03:16:00"), phase(f"failed: {COMPILED}")], 0, 0, id="failed"),
        pytest.param([ends("03:16:00"), phase(f"done: {COMPILED}", "03:16:30")], 2, 11.482, id="another-one-later"),
    ],
)
def test_tilelang_diagnosis_is_one_more_word_of_a_compile(lines: list[str], count: float, total: float) -> None:
    """It repeats with milliseconds what the pair told to the second."""
    reading = read(*SERVING, *lines)

    assert ({("tilelang", "compile", "serving"): count} if count else {}) == events(reading)
    assert ({"serving": pytest.approx(total)} if total else {}) == seconds(reading, "tilelang")
    assert not reading.value("jit_in_progress", "tilelang")


def test_failed_compile_is_told_once_for_all_ranks_and_runs_no_more() -> None:
    """TileLang prints no end when a compile fails."""
    reading = read(*SERVING, line("x", at="03:16:00"), *[f"({who}) {phase(f'failed: {COMPILED}')}" for who in (RANK0, RANK1)])

    assert {("tilelang",): 1} == counted(reading, "jit_failures_total")


def test_tilelang_hit_in_memory_is_no_compile() -> None:
    """It is a warning all the same."""
    text = (
        "2026-07-14 03:16:00  [TileLang:tilelang.cache.kernel_cache:WARNING] (kernel_cache.py:379): Found kernel 'k' in memory cache. For"
    )
    reading = read(*SERVING, text)

    assert {("tilelang", "hit"): 1} == counted(reading, "compile_cache_total")
    assert {} == events(reading)
    assert not reading.value("unrecognised_lines_total", "WARNING")


def test_tilelang_tuning_counts_once_though_a_warning_repeats_it() -> None:
    """With fewer processors than it wanted."""
    told = "Auto-tuning with 0.9 CPU utilizations, 64 CPUs available, 57 CPUs will be used"
    reading = read(
        *SERVING,
        f"2026-07-14 03:16:00,201 INFO:{told}",
        f"2026-07-14 03:16:00,202 WARNING:{told}, but the max CPU count is 32, so we will use 32 CPUs",
        "Tuned Latency 0.0123 with config {'block_M': 64} at index 0",
    )

    assert {("tilelang", "autotune", "serving"): 1} == events(reading)
    assert not reading.value("unrecognised_lines_total", "WARNING")


@pytest.mark.parametrize(
    ("lines", "found", "cached", "total"),
    [
        pytest.param(
            [flashinfer("Loading JIT ops: norm", "04:21:17,836"), flashinfer("Finished loading JIT ops: norm", "04:21:30,232")],
            {("flashinfer", "compile", "serving"): 1},
            {},
            12.396,
            id="built",
        ),
        pytest.param(
            [flashinfer("Loading JIT ops: cascade", "21:06:35,733"), flashinfer("Finished loading JIT ops: cascade", "21:06:35,741")],
            {},
            {("flashinfer", "hit"): 1},
            0,
            id="loaded",
        ),
        pytest.param([flashinfer("Finished loading JIT ops: norm", "04:21:30,232")], {}, {}, 0, id="nobody-knows"),
    ],
)
def test_old_flashinfer_builds_or_loads(
    lines: list[str], found: dict[tuple[str, ...], float], cached: dict[tuple[str, ...], float], total: float
) -> None:
    """Both print the same: a second or more is a build."""
    reading = read(*SERVING, *lines)

    assert found == events(reading)
    assert cached == counted(reading, "compile_cache_total")
    assert ({"serving": pytest.approx(total)} if total else {}) == seconds(reading, "flashinfer")


CUTE = "nvfp4_quantize_sm100a_cute_dsl/swizzled_bf16"


@pytest.mark.parametrize(
    "end",
    [
        f"Persisted CuTe-DSL kernel to /var/cache/flashinfer/{CUTE}.o",
        f"Failed to persist CuTe-DSL kernel {CUTE} to /var/cache/{CUTE}.o: [Errno 28] No space left on device. The kernel",
    ],
    ids=["kept", "not-kept"],
)
@pytest.mark.parametrize("watched", [False, True], ids=["alone", "watched-by-the-engine"])
def test_flashinfer_kernel_of_cute_dsl_is_one_compile(end: str, *, watched: bool) -> None:
    """The engine's monitor calls it by another name."""
    told = [monitor("Nvfp4QuantizeSwizzledKernel", at="03:16:00", library="CuTeDSL")] if watched else []
    reading = read(*SERVING, flashinfer(f"Compiling CuTe-DSL kernel {CUTE}", "03:16:00,100"), *told, flashinfer(end, "03:16:04,600"))

    assert {("cutedsl", "compile", "serving"): 1} == events(reading)
    assert {"serving": pytest.approx(4.5)} == seconds(reading, "cutedsl")
    assert 0 == reading.value("jit_in_progress", "cutedsl")


def test_shape_that_flashinfer_did_not_tune_is_a_hazard() -> None:
    """It runs with a default tactic, once told a shape."""
    reading = read(
        *SERVING,
        flashinfer("[AutoTuner]: No tuned config covers fused_moe::gemm1 input_shapes=((8,),); falling back to", "03:16:00,100", "WARNING"),
    )

    assert 1 == reading.value("config_hazards_total", "warmup_incomplete")
    assert not reading.value("unrecognised_lines_total", "WARNING")


def test_aiter_build_tells_its_seconds() -> None:
    """One process builds, the others wait and print nothing that counts."""
    reading = read(
        *SERVING,
        rocm("[pid=254 pname=Process-4] start build [module_moe] under /aiter/jit/build/module_moe"),
        rocm("[pid=255 pname=Process-5] waiting for baton release at /aiter/jit/build/lock_module_moe", RANK1),
    )
    assert 1 == reading.value("jit_in_progress", "aiter")

    reading.feed(
        rocm("[pid=254 pname=Process-4] \x1b[32mfinish build [module_moe], cost 57.8s \x1b[0m"),
        rocm("import [module_moe] under /aiter/jit/module_moe.so"),
        rocm("import [module_moe] under /aiter/jit/module_moe.so", RANK1),
    )
    assert {("aiter", "compile", "serving"): 1} == events(reading)
    assert {"serving": pytest.approx(57.8)} == seconds(reading, "aiter")
    assert 0 == reading.value("jit_in_progress", "aiter")


def test_aiter_build_that_fails_is_a_failure_that_took_its_time() -> None:
    """Its end is told whatever came of it."""
    reading = read(
        *SERVING,
        rocm("start build [module_moe] under /aiter/jit/build/module_moe"),
        rocm("failed jit build [module_moe]↓↓↓↓↓↓↓↓↓↓"),
        rocm("finish build [module_moe], cost 4.2s"),
    )

    assert {("aiter",): 1} == counted(reading, "jit_failures_total")
    assert {"serving": pytest.approx(4.2)} == seconds(reading, "aiter")
    assert 0 == reading.value("jit_in_progress", "aiter")


@pytest.mark.parametrize(
    ("lines", "found", "failures"),
    [
        pytest.param([NVCC] * 8, {("deepgemm", "compile", "serving"): 1}, {}, id="each-of-eight-ranks"),
        pytest.param([NVCC] * 9, {("deepgemm", "compile", "serving"): 2}, {}, id="and-another-kernel"),
        pytest.param([NVCC.replace("NVCC command", "NVCC PTX command")], {}, {}, id="its-assembly-is-none"),
        pytest.param(["Compiling JIT runtime with NVRTC options: -std=c++20 -O3"], {("deepgemm", "compile", "serving"): 1}, {}, id="NVRTC"),
        pytest.param(["Loading CUBIN: /c/cache/kernel.sm90_fp8_gemm_1d2d.8f2d4c1b/kernel.cubin"], {}, {}, id="a-load-is-none"),
        pytest.param(
            [NVCC, "NVCC compilation failed: kernel.cu(5): catastrophic error"],
            {("deepgemm", "compile", "serving"): 1},
            {("deepgemm",): 1},
            id="failed",
        ),
        pytest.param(
            ["Corrupted JIT cache directory (missing kernel.cu or kernel.cubin): /c/kernel.k.8f2d, please run `rm -rf /c/kernel.k.8f2d`"],
            {},
            {("deepgemm",): 1},
            id="corrupted-cache",
        ),
        pytest.param(
            ["RuntimeError: Ninja build failed. Ninja output:", "[1/2] c++ -c x.cc", "ninja: build stopped: subcommand failed."],
            {},
            {("flashinfer",): 1},
            id="ninja",
        ),
    ],
)
def test_deepgemm_and_ninja_talk_without_a_header(
    lines: list[str], found: dict[tuple[str, ...], float], failures: dict[tuple[str, ...], float]
) -> None:
    """Its commands are compiles; what it loads may have been there before."""
    reading = read(*SERVING, *lines)

    assert found == events(reading)
    assert failures == counted(reading, "jit_failures_total")


@pytest.mark.parametrize(
    ("line_of_a_compiler", "sightings"),
    [
        ("ptxas info    : Compiling entry function '_Z10gemm_naivePKfS0_Pfiii' for 'sm_120'", 1),
        ("[2/14] /usr/local/cuda-12.8/bin/nvcc --generate-dependencies-with-compile -MF a.d -c a.cu -o a.o", 1),
        ("ptxas info    : Used 58 registers, used 1 barriers, 4096 bytes smem", 0),
        ("ninja: no work to do.", 0),
    ],
)
def test_compiler_that_talks_is_seen_and_no_event(line_of_a_compiler: str, sightings: float) -> None:
    """It does not say for whom it works."""
    reading = read(*SERVING, line_of_a_compiler)

    assert sightings == (reading.value("jit_observed_total", "log", "serving") or 0)
    assert {} == events(reading)


@pytest.mark.parametrize(
    ("lines", "event", "total"),
    [
        pytest.param(
            ["SingleProcess AUTOTUNE benchmarking takes 1.5 seconds and 8.25 seconds precompiling"], "autotune", 9.75, id="torch-2.5"
        ),
        pytest.param(
            [
                "SubProcess AUTOTUNE benchmarking takes 0.5 seconds and 1.25 seconds precompiling for 18 choices and 0.25 seconds prescreening"
            ],
            "autotune",
            2,
            id="torch-2.7",
        ),
        pytest.param(
            [
                f"V0714 03:16:00.397000 {thread} torch/_dynamo/guards.py:3006] [1/37] [__recompiles] {text}"
                for thread in (215, 216)
                for text in ("Recompiling function forward in /models/llama.py:381", "    triggered by the following guard failure(s):")
            ],
            "recompile",
            0,
            id="two-ranks-recompile",
        ),
        pytest.param(
            [
                f"W0714 03:16:00.397000 {thread} torch/_dynamo/convert_frame.py:906] [0/8] torch._dynamo hit config.recompile_limit (8)"
                for thread in (5, 6)
            ],
            "recompile",
            0,
            id="two-ranks-give-up",
        ),
    ],
)
def test_torch_tells_of_itself(lines: list[str], event: str, total: float) -> None:
    """In its own words, whatever engine it is under."""
    reading = read(*SERVING, *lines)

    assert {("inductor", event, "serving"): 1} == events(reading)
    assert ({"serving": pytest.approx(total)} if total else {}) == seconds(reading, "inductor")


def test_library_s_words_do_not_make_an_engine_of_a_log() -> None:
    """They stand in a log of SGLang's as well, and before its first line."""
    recompiled = "W0714 03:16:00.397000 5 torch/_dynamo/convert_frame.py:906] [0/8] torch._dynamo hit config.recompile_limit (8)"

    assert "unknown" == read(recompiled, NVCC, rocm("finish build [module_moe], cost 4.2s")).source.runtime


def test_commands_within_a_session_of_sglang_are_part_of_it() -> None:
    """The session names the kernel and its bar tells how long it took; the commands in it have neither."""
    session = "[2026-07-14 03:16:00 TP0] Try DeepGEMM JIT Compiling for <GEMM_NT_F8F8BF16> N=7168, K=2048, num_groups=1 with all Ms."
    bar = "DeepGEMM warmup: 100%|██████████| 16384/16384 [00:33<00:00, 488.12it/s]"
    reading = read("[2026-07-14 03:12:00] The server is fired up and ready to roll!", session, NVCC, NVCC, bar)

    assert {("deepgemm", "compile", "serving"): 1} == events(reading)
    assert {"serving": 33} == seconds(reading, "deepgemm")
    assert {("deepgemm", "compile", "serving"): 2} == events(reading.feed(NVCC))
