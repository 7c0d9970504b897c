"""What counts as one compile, how long it took, in which phase it was, and whether one still runs."""

import pytest

from .compiles import SERVING, STARTED, begins, ends, events, monitor, seconds
from .conftest import API, POST, RANK0, RANK1, RANK2, READY, core, line, logo, read, stats


def graph(seconds: float, who: str = RANK0, at: str = "03:13:46", shape: str = "(1, 8192)", tag: str = "") -> str:
    """Inductor compiled a graph; recent versions put the model's part before it (`[backbone] `)."""
    return line(f"{tag}Compiling a graph for compile range {shape} takes {seconds} s", who, at)


def tuned(who: str, seconds: float, kernel: str = "fused_moe_kernel") -> list[str]:
    """Triton's four lines."""
    return [
        f"({who}) Triton autotuning for function {kernel},",
        f"({who}) with key as (8192, 2048, 'torch.bfloat16'),",
        f"({who}) finished after {seconds:.2f}s,",
        f"({who}) best config selected: BLOCK_M: 16, num_warps: 4;",
    ]


# -- folding -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "count", "total"),
    [
        pytest.param([graph(38.19, RANK0), graph(38.19, RANK1)], 1, 38.19, id="same-text"),
        pytest.param([graph(38.19, RANK0), graph(40.5, RANK1), graph(39.0, RANK2)], 1, 40.5, id="slowest-rank"),
        pytest.param([graph(38.0, RANK0, "03:13:46"), graph(39.0, RANK1, "03:13:48")], 1, 39.0, id="2-s-apart"),
        pytest.param([graph(38.0, RANK0, "03:13:46"), graph(39.0, RANK1, "03:13:49")], 2, 77.0, id="3-s-apart"),
        pytest.param([graph(38.0, RANK0), graph(39.0, RANK0)], 2, 77.0, id="same-process-repeats"),
        pytest.param([graph(38.0, RANK0), graph(2.0, RANK1, shape="(1, 64)")], 2, 40.0, id="two-shapes"),
    ],
)
def test_ranks_fold_within_2_s_by_backend_event_and_kernel(lines: list[str], count: float, total: float) -> None:
    """Ranks that differ in a duration only are one compile of the slowest rank; a process that repeats itself is another."""
    reading = read(*STARTED, *lines)

    assert {("inductor", "compile", "startup"): count} == events(reading)
    assert {"startup": pytest.approx(total)} == seconds(reading, "inductor")


def test_each_sighting_is_observed_though_ranks_fold() -> None:
    """The raw number is kept beside the folded one."""
    reading = read(*STARTED, graph(38.0, RANK0), graph(39.0, RANK1))

    assert 2 == reading.value("jit_observed_total", "log", "startup")


def test_compiled_graph_is_a_cache_miss_and_a_loaded_one_a_hit() -> None:
    """Told by two ranks, each is one."""
    load = "Directly load the compiled graph(s) for compile range (1, 8192) from the cache, took 1.204 s"
    reading = read(*STARTED, graph(38.0, RANK0), graph(39.0, RANK1), line(load, RANK0), line(load, RANK1))

    cached = {labels: value for labels, value in reading.series("compile_cache_total").items() if labels[0] == "inductor"}
    assert {("inductor", "hit"): 1, ("inductor", "miss"): 1} == cached


BAR = "Capturing CUDA graphs (FULL):  20%|  | 7/35 [00:00<?, ?it/s]\rCapturing CUDA graphs (FULL): 100%|██| 35/35 [00:00<?, ?it/s]"


def test_part_of_the_model_before_the_message_is_a_header() -> None:
    """vLLM 0.26 and later tag torch.compile's records; what else is in the block that was read makes no difference."""
    for before in ([], [BAR]):
        reading = read(*STARTED, *before, graph(38.19, tag="[backbone] "), line("[backbone] torch.compile took 52.44 s in total", RANK0))

        assert {("inductor", "compile", "startup"): 1} == events(reading)
        assert 52.44 == reading.value("startup_seconds", "compile")


# -- TileLang ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "count", "total"),
    [
        pytest.param([begins("03:16:00"), ends("03:16:09")], 1, 9, id="pair"),
        pytest.param([monitor(), begins("03:16:00"), ends("03:16:09")], 1, 9, id="monitor-first"),
        pytest.param([begins("03:16:00"), monitor(), ends("03:16:09")], 1, 9, id="monitor-between"),
        pytest.param([monitor(), begins("03:16:00", RANK0), ends("03:16:09", RANK0)], 1, 9, id="monitor-and-prefixed-pair"),
        pytest.param([monitor()], 1, 0, id="monitor-alone"),
        pytest.param([monitor(), begins("03:16:00"), ends("03:16:09"), begins("03:17:00"), ends("03:17:04")], 2, 13, id="compiles-again"),
        pytest.param([monitor("a"), begins("03:16:00", kernel="b"), ends("03:16:09", kernel="b")], 2, 9, id="two-kernels"),
        pytest.param(
            [begins("03:16:00", RANK0), begins("03:16:01", RANK1), ends("03:16:09", RANK0), ends("03:16:12", RANK1)],
            1,
            11,
            id="interleaved-ranks",
        ),
        pytest.param(
            [
                monitor(),
                begins("03:16:00", RANK0),
                begins("03:16:01", RANK1),
                ends("03:16:12", RANK1),
                ends("03:16:09", RANK0),
            ],
            1,
            11,
            id="interleaved-ranks-and-monitor",
        ),
        pytest.param(
            [
                begins("03:16:00", RANK0, "a"),
                begins("03:16:01", RANK0, "b"),
                ends("03:16:05", RANK0, "a"),
                ends("03:16:09", RANK0, "b"),
            ],
            2,
            5 + 8,
            id="interleaved-kernels",
        ),
        pytest.param([ends("03:16:09")], 1, 0, id="end-without-begin"),
    ],
)
def test_tilelang_pair_and_monitor_line_are_one_compile(lines: list[str], count: float, total: float) -> None:
    """A begin/complete pair, its copies on other ranks and the engine's own warning are one compile."""
    reading = read(*SERVING, *lines)

    assert {("tilelang", "compile", "serving"): count} == events(reading)
    assert ({"serving": total} if total else {}) == seconds(reading, "tilelang")


def test_begun_compile_is_in_progress_and_not_counted_yet() -> None:
    """A begin alone is no compile: it may be the one that hangs."""
    reading = read(*SERVING, begins("03:16:00", RANK0))

    assert 1 == reading.value("jit_in_progress", "tilelang")
    assert {} == events(reading)


def test_ended_compile_is_no_longer_in_progress() -> None:
    """The gauge stays at 0, so that its fall can be seen."""
    assert 0 == read(*SERVING, begins("03:16:00"), ends("03:16:09")).value("jit_in_progress", "tilelang")


def test_ranks_that_compile_the_same_kernel_are_one_in_progress() -> None:
    """Kernels, not ranks; and it runs until the last rank is done."""
    reading = read(*SERVING, begins("03:16:00", RANK0), begins("03:16:00", RANK1), begins("03:16:00", RANK1, "other"))
    assert 2 == reading.value("jit_in_progress", "tilelang")

    reading.feed(ends("03:16:05", RANK0), ends("03:16:05", RANK1, "other"))
    assert 1 == reading.value("jit_in_progress", "tilelang")


@pytest.mark.parametrize(("at", "running"), [("03:31:00", 1), ("03:31:01", 0)])
def test_begun_compile_is_forgotten_after_15_minutes(at: str, running: float) -> None:
    """By the log's clock: from 03:16:00 to 03:31:00."""
    assert running == read(*SERVING, begins("03:16:00"), stats(at)).value("jit_in_progress", "tilelang")


def test_new_process_compiles_nothing_yet() -> None:
    """What the old process began is gone with it."""
    assert not read(*SERVING, begins("03:16:00"), logo(at="03:17:00")).value("jit_in_progress", "tilelang")


def test_end_in_the_new_process_does_not_belong_to_a_begin_of_the_old_one() -> None:
    """A pair is one process's: the old one's begin gives no duration."""
    reading = read(*SERVING, begins("03:16:00"), logo(at="03:17:00"), ends("03:17:30"))

    assert {("tilelang", "compile", "startup"): 1} == events(reading)
    assert {} == seconds(reading, "tilelang")


def test_forgotten_begin_is_not_paired_with_a_later_compile() -> None:
    """A rank lost the end of a compile; twenty minutes later it compiles the kernel again in 5 s."""
    reading = read(*SERVING, begins("03:16:00"), begins("03:36:00"), ends("03:36:05"))

    assert {"serving": 5} == seconds(reading, "tilelang")
    assert 0 == reading.value("jit_in_progress", "tilelang")


# -- Triton ------------------------------------------------------------------------------------------------------------


def test_four_lines_of_triton_are_one_autotune_with_its_seconds() -> None:
    """The name is on the first line, the seconds are on the third."""
    reading = read(*SERVING, *tuned(RANK0, 1.24))

    assert {("triton", "autotune", "serving"): 1} == events(reading)
    assert {"serving": pytest.approx(1.24)} == seconds(reading, "triton")


def test_one_line_form_of_old_triton_has_the_same_meaning() -> None:
    """Up to Triton 3.2 everything stands on one line."""
    reading = read(*SERVING, f"({RANK0}) Triton autotuning for function k finished after 1.24s; best config selected: BLOCK_M: 16;")

    assert {("triton", "autotune", "serving"): 1} == events(reading)
    assert {"serving": pytest.approx(1.24)} == seconds(reading, "triton")


@pytest.mark.parametrize("order", [(0, 4, 1, 5, 2, 6, 3, 7), (0, 4, 5, 6, 7, 1, 2, 3), (4, 0, 6, 2, 5, 1, 7, 3)])
def test_interleaved_ranks_of_triton_fold_to_the_slowest(order: tuple[int, ...]) -> None:
    """Each rank's third line belongs to its own first line."""
    both = [*tuned(RANK0, 1.24), *tuned(RANK1, 2.5)]
    reading = read(*SERVING, *(both[i] for i in order))

    assert {("triton", "autotune", "serving"): 1} == events(reading)
    assert {"serving": pytest.approx(2.5)} == seconds(reading, "triton")


def test_duration_without_a_name_counts_nothing() -> None:
    """The first line may be lost."""
    assert {} == events(read(*SERVING, f"({RANK0}) finished after 1.24s,"))


# -- phases ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "phase"),
    [
        pytest.param([], "unknown", id="nothing-seen"),
        pytest.param([logo()], "startup", id="started"),
        pytest.param([logo(), core()], "startup", id="core-started"),
        pytest.param([logo(), core(), READY], "serving", id="ready"),
        pytest.param([READY], "serving", id="ready-without-start"),
        pytest.param([POST], "serving", id="answers-without-a-ready-line"),
        pytest.param([stats("03:13:00")], "serving", id="tokens-without-a-ready-line"),
        pytest.param([logo(), POST], "serving", id="answers-after-a-start"),
        pytest.param([logo(), READY, logo(at="03:13:30")], "startup", id="restarted"),
        pytest.param(['INFO:     10.0.0.1:1 - "GET /health HTTP/1.1" 200 OK'], "unknown", id="a-probe-is-no-traffic"),
    ],
)
def test_phase_of_a_compile(before: list[str], phase: str) -> None:
    """Startup before a seen ready line, serving after it or after traffic, unknown when nothing was seen."""
    reading = read(*before, graph(38.0, at="03:13:46"))

    assert {("inductor", "compile", phase): 1} == events(reading)
    assert {phase: 38} == seconds(reading, "inductor")
    assert {("inductor", phase)} == set(reading.series("jit_last_event_timestamp_seconds"))


@pytest.mark.parametrize("before", [[], [logo()], [logo(), READY]], ids=["nothing", "started", "ready"])
def test_monitor_lines_are_always_serving(before: list[str]) -> None:
    """vLLM's monitor is on after the warm-up only."""
    assert {("tilelang", "compile", "serving"): 1} == events(read(*before, monitor()))


def test_compile_that_begins_before_ready_is_startup() -> None:
    """The phase is that of the begin."""
    reading = read(*STARTED, begins("03:13:51"), READY, ends("03:14:00"))

    assert {("tilelang", "compile", "startup"): 1} == events(reading)
    assert {"startup": 9} == seconds(reading, "tilelang")


def test_last_event_has_the_time_of_its_line() -> None:
    """2026-07-14 03:16:00 UTC is 1783998960 s after the epoch."""
    reading = read(*SERVING, monitor(at="03:16:00"), line("x", API, "03:20:00"))

    assert 1783998960 == reading.value("jit_last_event_timestamp_seconds", "tilelang", "serving")


# -- ranks without a process name (0.33) -------------------------------------------------------------------------------


def autotune(kernel: str = "fused_moe_kernel") -> str:
    """The first of Triton's four lines."""
    return f"Triton autotuning for function {kernel},"


TP8 = (logo("0.33.0"), core("0.33.0"), READY)


def test_nameless_ranks_of_one_compile_fold() -> None:
    """TileLang's pairs overlap: all of them are one compile of the slowest rank."""
    reading = read(*TP8, *[begins("03:16:00")] * 8, *[ends("03:16:03")] * 8)

    assert {("tilelang", "compile", "serving"): 1} == events(reading)
    assert {"serving": 3.0} == seconds(reading, "tilelang")
    again = reading.feed(*[begins("03:17:00")] * 8, *[ends("03:17:02")] * 8)
    assert {("tilelang", "compile", "serving"): 2} == events(again)
    assert {"serving": 5.0} == seconds(again, "tilelang")


def test_the_monitors_word_between_the_begins_of_nameless_ranks_is_the_same_compile() -> None:
    """Rank 0 is not always the first."""
    reading = read(logo("0.33.0"), *[begins("03:16:00")] * 3, monitor(at="03:16:00"), *[begins("03:16:01")] * 5, *[ends("03:16:03")] * 8)

    assert {("tilelang", "compile", "serving"): 1} == events(reading)
    assert {"serving": 3.0} == seconds(reading, "tilelang")


def test_nameless_ranks_of_one_autotuning_fold() -> None:
    """As many as the engine has workers; the next one is another autotuning."""
    reading = read(*TP8, line("x", at="03:16:00"), *[autotune()] * 8, *["finished after 1.24s,"] * 8)

    assert {("triton", "autotune", "serving"): 1} == events(reading)
    assert {"serving": 1.24} == seconds(reading, "triton")
    assert {("triton", "autotune", "serving"): 2} == events(reading.feed(autotune()))


def test_durations_of_two_nameless_ranks_belong_to_their_kernels() -> None:
    """Both are counted, whichever finished first."""
    reading = read(logo(), READY, autotune("a"), autotune("b"), "finished after 1.24s,", "finished after 5.00s,")

    assert {("triton", "autotune", "serving"): 2} == events(reading)
    assert {"serving": 6.24} == seconds(reading, "triton")


def test_graphs_from_the_cache_are_counted_once_for_all_ranks_in_any_order() -> None:
    """Rank by rank or range by range."""
    ranges = ("(1, 8192)", "(8193, 16384)")

    def loaded(each: str, who: str) -> str:
        return line(f"Directly load the compiled graph(s) for compile range {each} from the cache, took 1.204 s", who, "03:13:00")

    by_rank = read(*STARTED, *(loaded(each, who) for who in (RANK0, RANK1) for each in ranges))
    by_range = read(*STARTED, *(loaded(each, who) for each in ranges for who in (RANK0, RANK1)))

    assert 2 == by_rank.value("compile_cache_total", "inductor", "hit") == by_range.value("compile_cache_total", "inductor", "hit")


def test_an_idle_line_tells_that_a_log_without_its_start_serves() -> None:
    """An engine prints periodic lines once it has served."""
    idle = stats("03:15:50", generation=0.0, running=0)

    assert {("triton", "autotune", "serving"): 1} == events(read(idle, autotune()))
