"""What an engine's own figures prove, alone and with its log."""

import pytest

from exporter.evidence import engine_metrics

from .compiles import begins, ends
from .conftest import POST, READY, Reading, connector, core, failure, line, logo, read, stats, transfers
from .engines import NOW, Pair, exposition
from .sglang_lines import READY as SGLANG_READY
from .sglang_lines import arguments, decode, prefill, tagged
from .test_state import restarted

HEALTHY = {"requests": 5.0, "local": 5.0, "external": 4995.0, "moved": 40.0, "generated": 500.0}
BYPASS = {"requests": 5.0, "local": 5000.0, "generated": 500.0}


def served(pair: Pair, at: str = "03:14:20", *, prompt: float = 1.0) -> Pair:
    """An interval of the log in which requests were answered."""
    pair.reading.feed(POST, POST, POST, POST, stats(at, prompt=prompt, generation=40.0), arrival=pair.now)
    return pair


def test_transfers_and_a_low_share_are_seen_though_the_log_is_silent() -> None:
    """A version whose log does not tell locally computed tokens from others."""
    pair = Pair(version="0.17.0").told().told(**HEALTHY)

    assert ("pass", "pass", "pass") == tuple(map(pair.check, ("local_prefill_low", "transfers_growing", "no_transfer_failure")))
    assert 0.001 == pair.ratio


def test_silent_recompute_is_seen_by_the_share() -> None:
    """Twice healthy, then the router leaves out the parameters: within two readings."""
    pair = Pair().told().told(**HEALTHY).told(**HEALTHY)
    served(pair)
    pair.told(**BYPASS)
    assert "fail" == pair.check("local_prefill_low")
    pair.told(**BYPASS)

    assert ("fail", "fail") == tuple(map(pair.check, ("local_prefill_low", "transfers_growing")))
    assert "router_bypass" == pair.verdict
    assert 1.0 == pair.ratio


def test_proven_by_both() -> None:
    """The log's own evidence with the engine's."""
    pair = Pair().told()
    for at in ("03:14:20", "03:14:30"):
        served(pair, at).told(**HEALTHY)
        pair.reading.feed(transfers(8, at), arrival=pair.now)

    assert "proven" == pair.verdict


def test_one_engine_s_figures_with_another_s_log_prove_nothing() -> None:
    """A wrong address: what the log calls a bypass is no pair that works."""
    pair = Pair().told()
    for at in ("03:14:20", "03:14:30", "03:14:40"):
        served(pair, at, prompt=2000.0).told(**HEALTHY)

    assert "unknown" == pair.check("local_prefill_low")
    assert "unproven" == pair.verdict


def test_a_bypass_that_the_log_shows_is_not_called_partial_for_transfers_before_it() -> None:
    """The two windows end at different times: an interval of the engine's that began healthy says nothing against two of the log's."""
    pair = Pair().told()
    served(pair, "03:14:20")
    pair.reading.feed(transfers(8, "03:14:20"), arrival=pair.now)
    pair.told(**HEALTHY).told(**HEALTHY)
    served(pair, "03:14:30", prompt=2000.0)
    pair.told(requests=5, local=3000, external=1990, moved=16, generated=500)
    served(pair, "03:14:40", prompt=2000.0)
    assert "partial" == pair.verdict
    pair.told(**BYPASS)

    assert "router_bypass" == pair.verdict
    assert ("fail", "fail") == tuple(map(pair.check, ("local_prefill_low", "transfers_growing")))


def test_transfers_that_go_on_are_said_against_the_log() -> None:
    """Though they were fewer in the newest interval than whole prompts."""
    pair = Pair().told()
    for at in ("03:14:20", "03:14:30", "03:14:40"):
        served(pair, at, prompt=2000.0).told(requests=5, local=3000, external=1990, moved=16, generated=500)

    assert "partial" == pair.verdict


def test_a_failure_of_the_log_stands() -> None:
    """Handshakes that fail are no failed transfers to the engine."""
    pair = Pair().told()
    served(pair)
    pair.reading.feed(*(failure("transfer_failed", f"r{number}") for number in range(9)), arrival=NOW)
    pair.told(**HEALTHY)

    assert "fail" == pair.check("no_transfer_failure")
    assert "proven" != pair.verdict


@pytest.mark.parametrize(
    ("figures", "status"),
    [
        ({"moved": 100, "failed": 0}, "pass"),
        ({"moved": 100, "failed": 1}, "unknown"),
        ({"moved": 100, "failed": 5}, "unknown"),
        ({"moved": 95, "failed": 5}, "unknown"),
        ({"moved": 32, "failed": 8}, "unknown"),
        ({"moved": 171, "failed": 9}, "fail"),
        ({"moved": 172, "failed": 9}, "unknown"),
        ({"moved": 0, "failed": 1}, "fail"),
        ({"moved": 0, "failed": 0}, "unknown"),
    ],
)
def test_failed_transfers_by_the_verdict_s_thresholds(figures: dict[str, float], status: str) -> None:
    """Two requests and five per cent, or all; on eight ranks eight failures may be one request's."""
    assert status == Pair().told().told(requests=5, local=5, **figures).check("no_transfer_failure")


def test_only_a_prompt_hit_in_the_cache_needs_no_transfer() -> None:
    """An engine that computes little and fetches nothing is not known to fail."""
    pair = Pair().told().told(requests=5, local=50)

    assert ("pass", "unknown") == tuple(map(pair.check, ("local_prefill_low", "transfers_growing")))


@pytest.mark.parametrize(("requests", "status", "verdict"), [(1, "unknown", "unproven"), (2, "fail", "router_bypass")])
def test_one_prompt_that_was_computed_here_may_be_a_try(requests: int, status: str, verdict: str) -> None:
    """Of the window: nobody pages for what somebody sent by hand."""
    pair = Pair().told(requests=0, moved=0).told(requests=requests, local=1000 * requests)

    assert (status, verdict) == (pair.check("local_prefill_low"), pair.verdict)


def test_a_transfer_counts_with_the_first_token_that_follows_it() -> None:
    """They may stand in two readings."""
    pair = Pair().told().told(moved=8).told(requests=1, local=1, external=999)

    assert "pass" == pair.check("transfers_growing")


def test_the_last_two_intervals_with_requests_count() -> None:
    """However long ago, as long as the engine answers."""
    pair = Pair().told().told(**BYPASS).told(**HEALTHY)
    assert "fail" == pair.check("local_prefill_low")
    pair.told(**HEALTHY)
    assert "pass" == pair.check("local_prefill_low")
    for _ in range(30):
        pair.told()
    assert "pass" == pair.check("local_prefill_low")
    pair.told(**BYPASS).told()
    assert "fail" == pair.check("local_prefill_low")


@pytest.mark.parametrize("reason", engine_metrics.REASONS)
def test_without_readings_the_evidence_is_gone(reason: str) -> None:
    """It is not proven by what was true half a minute ago."""
    pair = Pair().told().told(**HEALTHY)
    for _ in range(4):
        pair.now += 10
        pair.take(reason)

    assert ("unknown", "unknown") == tuple(map(pair.check, ("local_prefill_low", "transfers_growing")))
    assert pair.ratio is None


def test_evidence_grows_old_without_a_word() -> None:
    """A thread that hangs tells nothing."""
    pair = Pair().told().told(**HEALTHY)

    assert "pass" == pair.check("local_prefill_low", pair.now + 30)
    assert "unknown" == pair.check("local_prefill_low", pair.now + 40)
    assert "unknown" == pair.check("local_prefill_low", pair.now - 3600), "the clock was put back"


def test_counters_that_fall_are_a_new_beginning() -> None:
    """Neither what was before nor the difference counts."""
    pair = Pair().told().told(**HEALTHY)
    pair.total = {}
    pair.told(**{name: value / 2 for name, value in HEALTHY.items()})
    assert "unknown" == pair.check("transfers_growing")
    pair.told(**BYPASS)

    assert ("fail", "fail") == tuple(map(pair.check, ("local_prefill_low", "transfers_growing")))


def test_another_process_is_a_new_beginning() -> None:
    """Though its counters are higher already."""
    pair = Pair().told().told(**BYPASS).told(**{name: 10 * value for name, value in HEALTHY.items()}, started=1.8e9)

    assert "unknown" == pair.check("local_prefill_low")


def test_a_new_process_in_the_log_forgets_the_figures() -> None:
    """What the one before proved."""
    pair = Pair().told().told(**HEALTHY)
    pair.reading.feed(logo("0.32.0", "03:20:00"), arrival=pair.now)

    assert "unknown" == pair.check("transfers_growing")


def test_a_prefill_engine_has_no_share() -> None:
    """It computes all, as it should."""
    pair = Pair(role="kv_producer").told().told(**BYPASS)

    assert pair.ratio is None
    assert "not_judged" == pair.verdict


def test_a_saved_log_has_no_other_witness() -> None:
    """One-shot reading has no clock."""
    pair = Pair().told().told(**BYPASS)

    assert not pair.reading.series("pd_local_prefill_ratio")
    assert "unknown" == pair.reading.check("local_prefill_low")


def test_figures_of_one_of_two_engines_in_a_log_are_nobodys() -> None:
    """Nothing tells whose they are; what they proved while there was one engine grows old."""
    pair = Pair()
    pair.reading = Reading()

    def served_by(container: str, *lines: str) -> None:
        pair.reading.feed(*(f"{container} | {each}" for each in lines), arrival=pair.now)

    def verdicts() -> dict[str, str]:
        return {
            snapshot.common["source"]: sample.labels[0]
            for snapshot in pair.reading.source.snapshots(pair.now)
            for sample in snapshot.samples
            if sample.family == "pd_verdict" and sample.value == 1
        }

    start = [logo("0.32.0"), core("0.32.0"), connector("kv_consumer"), READY]
    served_by("decode-1", *start)
    pair.told().told(**BYPASS)
    assert {"log": "router_bypass"} == verdicts()

    served_by("decode-2", *start)
    for second in (20, 30, 40, 50):
        for container in ("decode-1", "decode-2"):
            served_by(container, POST, stats(f"03:14:{second}", prompt=1.0), transfers(8, f"03:14:{second}"))
        pair.told(**BYPASS)
    assert {"log": "proven", "log/decode-2": "proven"} == verdicts()


def test_an_engine_of_which_only_the_figures_tell_is_not_idle() -> None:
    """Its log broke off: what that proved is old, and what the figures show to be wrong counts."""
    pair = Pair().told()
    for at in ("03:14:20", "03:14:30"):
        served(pair, at).told(**HEALTHY)
        pair.reading.feed(transfers(8, at), arrival=pair.now)
    assert "proven" == pair.verdict
    for _ in range(31):
        pair.told(**HEALTHY)
    assert "unproven" == standing(pair, pair.now)[0]
    pair.told(**BYPASS).told(**BYPASS)
    assert "router_bypass" == standing(pair, pair.now)[0]
    pair.told(**HEALTHY).told(**HEALTHY)
    for _ in range(31):
        pair.told(requests=1.0, local=1.0, generated=1.0)
    assert "idle" == standing(pair, pair.now)[0]


# -- preemptions -------------------------------------------------------------------------------------------------------


def preempted(pair: Pair) -> float | None:
    """The counter."""
    return pair.series("requests_preempted_total").get(("0",))


def test_preemptions_are_the_engine_s_own() -> None:
    """From 0 when it started, also over a restart of the engine that nobody saw."""
    pair = Pair().told(preempted=7)
    assert 7 == preempted(pair)
    pair.told(preempted=2)
    assert 9 == preempted(pair)
    pair.total = {}
    pair.told(preempted=4)
    assert 13 == preempted(pair)
    pair.told(preempted=96, started=1.8e9)
    assert 113 == preempted(pair)


def test_preemptions_go_on_after_a_restart_of_ours() -> None:
    """The state has the engine's total."""
    from exporter.state import Freezer, Thawer

    pair = Pair().told(preempted=7)
    state = Freezer(pair.reading.source.digest).state(pair.reading.source)
    other = Pair()
    Thawer().restore(other.reading.source, state)
    other.total = dict(pair.total)
    other.told(preempted=1)

    assert 8 == preempted(other)


def test_v0_counts_its_own_lines() -> None:
    """Not twice."""
    text = "Sequence group 1 is preempted by PreemptionMode.RECOMPUTE mode because there is not enough KV cache space. total_num_cumulative_preemption=50"
    pair = Pair(line(text, level="WARNING"), version="0.8.5").told(preempted=70)

    assert preempted(pair) == read(logo("0.8.5"), line(text, level="WARNING")).value("requests_preempted_total", "0")


# -- frozen ------------------------------------------------------------------------------------------------------------


def test_an_engine_of_which_nothing_moves_is_frozen() -> None:
    """Requests run, and no figure changes."""
    pair = Pair().told(running=3).told()
    window = pair.reading.source.engine.witnesses.metrics
    assert NOW + 10 == window.frozen_since
    pair.told()
    assert NOW + 10 == window.frozen_since
    pair.told(generated=1)
    assert window.frozen_since is None


def test_an_idle_engine_is_not_frozen() -> None:
    """Nothing runs."""
    pair = Pair().told().told().told()

    assert pair.reading.source.engine.witnesses.metrics.frozen_since is None


def test_a_long_prefill_is_not_frozen() -> None:
    """It fills the KV cache with each chunk."""
    pair = Pair().told(running=1)
    pair.now += 10
    pair.take("", exposition(**pair.total).replace("0.25", "0.26"))

    assert pair.reading.source.engine.witnesses.metrics.frozen_since is None


def test_an_engine_that_does_not_answer_is_told_from_one_that_refuses() -> None:
    """401 is no hang."""
    pair = Pair().told()
    window = pair.reading.source.engine.witnesses.metrics
    pair.take("auth")
    assert window.unanswered_since is None
    pair.take("unreachable")
    assert window.unanswered_since is None
    pair.take("timeout")
    pair.now += 10
    pair.take("timeout")
    assert NOW + 10 == window.unanswered_since
    pair.told()
    assert window.unanswered_since is None


def state(pair: Pair) -> str:
    """The engine's state."""
    return pair.reading.source.engine.life.state


@pytest.mark.parametrize("reason", ["", "timeout"])
def test_an_engine_that_should_work_and_does_not_is_stalled(reason: str) -> None:
    """By its own figures, or by its silence; until tokens flow again."""
    pair = served(Pair()).told(running=3)
    for _ in range(12):
        assert "serving" == state(pair)
        if reason:
            pair.now += 10
            pair.take(reason)
        else:
            pair.told()
    for _ in range(2):
        pair.now += 10
        pair.take("timeout" if reason else "", "" if reason else exposition(**pair.total))
    assert "stalled" == state(pair)
    served(pair, "03:18:00")
    assert "serving" == state(pair)


@pytest.mark.parametrize("reason", ["unreachable", "auth", "status", "not_metrics"])
def test_an_address_that_is_no_good_stalls_nothing(reason: str) -> None:
    """Nor one that never answered."""
    pair, never = Pair().told(running=3), Pair()
    for _ in range(30):
        for each, why in ((pair, reason), (never, "timeout")):
            each.now += 10
            each.take(why)

    assert ("serving", "serving") == (state(pair), state(never))


def test_frozen_figures_of_another_engine_stall_nothing() -> None:
    """The log tells of tokens."""
    pair = Pair().told(running=3)
    for number in range(30):
        pair.told()
        served(pair, f"03:{20 + number // 6}:{number % 6}0")

    assert "serving" == state(pair)


@pytest.mark.parametrize(
    ("start", "alive"),
    [
        pytest.param([arguments(), tagged(SGLANG_READY, tags="")], decode(), id="sglang-decodes"),
        pytest.param([arguments(), tagged(SGLANG_READY, tags="")], prefill(new=8192), id="sglang-prefills-one-long-prompt"),
        pytest.param([logo(), READY], POST, id="answers-without-stats"),
    ],
)
def test_an_engine_that_is_too_busy_to_be_asked_is_not_stalled(start: list[str], alive: str) -> None:
    """Its log tells that it works; when that ends, it is, and with the next word it is no more."""
    pair = Pair()
    pair.reading = Reading().feed(*start, arrival=NOW)
    pair.told(running=3)
    for number in range(41):
        if number < 30:
            pair.reading.feed(alive, arrival=pair.now)
        assert "serving" == state(pair)
        pair.now += 10
        pair.take("timeout")
    assert "stalled" == state(pair)
    pair.reading.feed(alive, arrival=pair.now)
    assert "serving" == state(pair)
    pair.now += 10
    assert "serving" == state(pair.take("timeout"))


def test_an_engine_that_compiles_is_not_stalled() -> None:
    """It is known why no figure moves; when it still does not after that, nothing explains it."""
    pair = Pair(begins("03:20:00")).told(running=3)
    for _ in range(20):
        pair.told()
    assert "serving" == state(pair)
    pair.reading.feed(ends("03:24:00"), arrival=pair.now)
    assert "stalled" == state(pair.told())


def bypassed() -> Pair:
    """The log has no evidence of a bypass, and the figures prove it."""
    pair = Pair(version="0.17.0").told()
    for at in ("03:14:20", "03:14:30"):
        served(pair, at).told(**BYPASS)
    return pair


def standing(pair: Pair, now: float | None = None) -> tuple[str, float | None]:
    """The verdict and since when, as a scrape shows them."""
    (verdict,) = [labels[0] for labels, value in pair.series("pd_verdict", now).items() if value == 1]
    return verdict, pair.series("pd_verdict_timestamp_seconds", now).get(())


def test_a_restart_keeps_the_verdict_until_two_readings_were_tried() -> None:
    """Neither a line nor one reading alone tells what two readings told; the next two do, and it goes on since then."""
    pair = bypassed()
    before = standing(pair)
    assert ("router_bypass", True) == (before[0], before[1] is not None)

    pair.reading.source = restarted(pair.reading.source)[0]
    assert before == standing(pair)
    served(pair, "03:14:40")
    assert "router_bypass" == pair.reading.source.engine.judgement(None).verdict
    assert before == standing(pair.told())
    served(pair, "03:14:50").told(**BYPASS)
    assert before == standing(pair)
    served(pair, "03:15:00").told(**HEALTHY)
    served(pair, "03:15:10").told(**HEALTHY)
    assert "router_bypass" != pair.verdict


@pytest.mark.parametrize("after", ["unreachable", "nothing-is-asked", "another-process"])
def test_what_was_known_before_a_restart_does_not_stand_for_long(after: str) -> None:
    """The engine is gone, or it is asked no more, or it is another one."""
    pair = bypassed()
    pair.reading.source = restarted(pair.reading.source)[0]
    if after == "unreachable":
        pair.take(after).take(after)
    elif after == "another-process":
        pair.reading.feed(logo("0.17.0", at="03:20:00"), arrival=pair.now)
    else:
        assert "router_bypass" == pair.verdict
        pair.now += 60
    assert "router_bypass" != pair.verdict


# -- SGLang ------------------------------------------------------------------------------------------------------------


def test_sglang_s_failures_are_evidence() -> None:
    """Of its successes it has no number on the decode side."""
    pair = Pair()
    pair.reading = Reading().feed(arguments(disaggregation_mode="decode"), arrival=NOW)
    for failed, requests in ((0, 0), (5, 5)):
        pair.now += 10
        pair.take(
            "",
            f"sglang:generation_tokens_total 9\nsglang:num_transfer_failed_reqs_total {failed}\nsglang:time_to_first_token_seconds_count {requests}\n",
        )

    assert ("fail", "unknown") == tuple(map(pair.check, ("no_transfer_failure", "transfers_growing")))
