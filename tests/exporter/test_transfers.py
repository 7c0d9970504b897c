"""KV transfers as numbers: sums, bytes, gauges of the last interval, DP attribution, failures, expiry."""

import pytest

from .conftest import API, RANK0, RANK1, RANK2, RANK3, READY, Reading, arguments, connector, failure, line, logo, read, stats, transfers

FIRST = (
    "(APIServer pid=1) INFO 07-14 03:14:20 [metrics.py:103] KV Transfer metrics: Num successful transfers=4, Avg xfer time (ms)=7.574, "
    "P90 xfer time (ms)=8.017, Avg post time (ms)=1.93, P90 post time (ms)=1.93, Avg MB per transfer=6.937, Throughput (MB/s)=915.962, "
    "Avg number of descriptors=122.0"
)
SECOND = (
    "(APIServer pid=1) INFO 07-14 03:14:20 [metrics.py:103] KV Transfer metrics: Num successful transfers=512, Avg xfer time (ms)=0.321, "
    "P90 xfer time (ms)=0.33, Avg post time (ms)=0.04, P90 post time (ms)=0.04, Avg MB per transfer=7.932, Throughput (MB/s)=24711.0, "
    "Avg number of descriptors=64.0"
)
MIB = 2**20
NIXL = ("0", "nixl")


def counted(reading: Reading, family: str) -> dict[tuple[str, ...], float]:
    """The series of a counter that are not 0."""
    return {labels: value for labels, value in reading.series(family).items() if value}


# -- the H20 report ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "number", "seconds", "post", "size"),
    [
        pytest.param([FIRST], 4, 4 * 7.574e-3, 4 * 1.93e-3, 4 * 6.937 * MIB, id="first"),
        pytest.param([SECOND], 512, 512 * 0.321e-3, 512 * 0.04e-3, 512 * 7.932 * MIB, id="second"),
        pytest.param(
            [FIRST, SECOND],
            516,
            4 * 7.574e-3 + 512 * 0.321e-3,
            4 * 1.93e-3 + 512 * 0.04e-3,
            4 * 6.937 * MIB + 512 * 7.932 * MIB,
            id="both",
        ),
    ],
)
def test_counters_are_number_times_mean(lines: list[str], number: float, seconds: float, post: float, size: float) -> None:
    """The line has means; the MB in it are MiB."""
    reading = read(*lines)

    assert {NIXL: number} == counted(reading, "kv_transfers_total")
    assert {NIXL: pytest.approx(seconds)} == counted(reading, "kv_transfer_seconds_total")
    assert {NIXL: pytest.approx(post)} == counted(reading, "kv_transfer_post_seconds_total")
    assert {NIXL: pytest.approx(size)} == counted(reading, "kv_transfer_bytes_total")


@pytest.mark.parametrize(
    ("lines", "mean", "p90", "throughput", "descriptors"),
    [
        pytest.param([FIRST], 7.574e-3, 8.017e-3, 915.962 * MIB, 122, id="first"),
        pytest.param([FIRST, SECOND], 0.321e-3, 0.33e-3, 24711 * MIB, 64, id="second"),
    ],
)
def test_gauges_are_those_of_the_last_interval(lines: list[str], mean: float, p90: float, throughput: float, descriptors: float) -> None:
    """Before and after the repair of the H20 pair: 7.6 ms and 916 MB/s, then 0.32 ms and 24.7 GB/s."""
    reading = read(*lines)

    assert {(*NIXL, "mean"): pytest.approx(mean), (*NIXL, "p90"): pytest.approx(p90)} == reading.series("kv_transfer_duration_seconds")
    assert {NIXL: pytest.approx(throughput)} == reading.series("kv_transfer_throughput_bytes_per_second")
    assert {NIXL: descriptors} == reading.series("kv_transfer_descriptors")


def test_512_rank_transfers_at_tp_8_are_64_requests() -> None:
    """Transfers are counted by rank; divided by the parallel size they are requests."""
    reading = read(logo(), arguments("'tensor_parallel_size': 8"), READY, SECOND)

    number, tp = reading.value("kv_transfers_total", *NIXL), reading.value("engine_parallel_size", "tp")
    assert number
    assert tp
    assert 64 == number / tp


# -- intervals ---------------------------------------------------------------------------------------------------------


def test_interval_without_a_transfer_is_counted_and_leaves_the_gauges() -> None:
    """A line of zeros tells of failures only: its durations are no measurement."""
    reading = read(FIRST, transfers(0, "03:14:30"))

    assert {NIXL: 1} == counted(reading, "kv_transfer_empty_intervals_total")
    assert {NIXL: 4} == counted(reading, "kv_transfers_total")
    assert pytest.approx(7.574e-3) == reading.value("kv_transfer_duration_seconds", *NIXL, "mean")


def test_failures_of_the_line_are_kept_apart_from_the_records() -> None:
    """The number on the line counts something else than the records."""
    more = ", Num failed transfers={}, Num KV expired reqs=0, Num notifs after expiry=0"
    reading = read(transfers(4, more=more.format(2)), transfers(0, "03:14:30", more=more.format(8)), failure("transfer_failed"))

    assert {NIXL: 10} == counted(reading, "kv_transfer_reported_failures_total")
    assert {("nixl", "transfer"): 1} == counted(reading, "kv_transfer_failures_total")


def test_line_without_its_own_failure_number_reports_none() -> None:
    """0.26 prints no such number: absent, not 0."""
    assert {} == counted(read(FIRST), "kv_transfer_reported_failures_total")


@pytest.mark.parametrize(
    "value",
    ["np.float64(7.574)", "7.574"],
)
def test_connector_inside_a_multi_connector_prints_a_dict(value: str) -> None:
    """MultiConnector nests the pairs, 0.26 with numpy's repr."""
    text = f"NixlConnector={{'Num successful transfers': 4, 'Avg xfer time (ms)': {value}, 'Avg post time (ms)': 1.93, 'Avg MB per transfer': 6.937}}"
    reading = read(line(f"KV Transfer metrics: {text}"))

    assert {NIXL: 4} == counted(reading, "kv_transfers_total")
    assert pytest.approx(4 * 7.574e-3) == reading.value("kv_transfer_seconds_total", *NIXL)


# -- data parallel -----------------------------------------------------------------------------------------------------


def test_transfer_line_belongs_to_the_engine_of_the_line_before() -> None:
    """The line has no number of its own: Engine 000, Engine 001, then all engines together."""
    reading = read(
        stats(engine="Engine 000"),
        transfers(4),
        stats(engine="Engine 001"),
        transfers(7),
        stats("03:14:30", engine="2 Engines Aggregated"),
        transfers(20, "03:14:30"),
        stats("03:14:40", engine="Engine 000"),
        transfers(5, "03:14:40"),
    )

    assert {("0", "nixl"): 9, ("1", "nixl"): 7, ("all", "nixl"): 20} == counted(reading, "kv_transfers_total")


def test_spec_line_belongs_to_the_engine_of_the_line_before() -> None:
    """As the connector's line does."""
    spec = (
        "SpecDecoding metrics: Mean acceptance length: 3.09, Accepted throughput: 54.40 tokens/s, Drafted throughput: 130.00 tokens/s, "
        "Accepted: 544 tokens, Drafted: 1300 tokens, Per-position acceptance rate: 0.773, 0.577, 0.377, 0.235, 0.131, "
        "Avg Draft acceptance rate: 41.8%"
    )
    reading = read(stats(engine="Engine 000"), line(spec), stats(engine="Engine 001"), line(spec), line(spec))

    assert {("0", "unknown"): 544, ("1", "unknown"): 1088} == counted(reading, "spec_accepted_tokens_total")
    assert {("0", "unknown"): 1300, ("1", "unknown"): 2600} == counted(reading, "spec_draft_tokens_total")
    # 544 / (3.09 - 1) = 260.3
    assert {("0", "unknown"): 260, ("1", "unknown"): 520} == counted(reading, "spec_drafts_total")
    assert 0.773 == reading.value("spec_position_acceptance_ratio", "0", "unknown", "0")
    assert 0.131 == reading.value("spec_position_acceptance_ratio", "0", "unknown", "4")


def test_draft_that_was_never_accepted_counts_by_its_length() -> None:
    """Nothing accepted: drafted tokens over the number of positions."""
    spec = (
        "SpecDecoding metrics: Mean acceptance length: 1.00, Accepted throughput: 0.00 tokens/s, Drafted throughput: 130.00 tokens/s, "
        "Accepted: 0 tokens, Drafted: 1300 tokens, Per-position acceptance rate: 0.000, 0.000, 0.000, 0.000, 0.000, "
        "Avg Draft acceptance rate: 0.0%"
    )
    reading = read(stats(), line(spec))

    assert {("0", "unknown"): 260} == counted(reading, "spec_drafts_total")
    assert 0 == reading.value("spec_acceptance_ratio", "0", "unknown")


def test_interval_without_drafts_tells_no_rates() -> None:
    """`nan` is no number to show."""
    spec = (
        "SpecDecoding metrics: Mean acceptance length: nan, Accepted throughput: 0.00 tokens/s, Drafted throughput: 0.00 tokens/s, "
        "Accepted: 0 tokens, Drafted: 0 tokens, Per-position acceptance rate: , Avg Draft acceptance rate: nan%"
    )
    reading = read(stats(), line(spec))

    assert {} == reading.series("spec_acceptance_length")
    assert {} == counted(reading, "spec_drafts_total")


# -- failures ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("handshake_setup_failed", "handshake_setup"),
        ("handshake_failed", "handshake"),
        ("transfer_setup_failed", "transfer_setup"),
        ("transfer_failed", "transfer"),
        ("transfer_exception", "transfer_exception"),
        ("transfer_release_failed", "transfer_release"),
        ("notification_failed", "notification"),
        ("push_handshake_failed", "handshake"),
        ("push_reg_handshake_failed", "registration"),
        ("what_a_newer_engine_says_failed", "other"),
    ],
)
def test_failure_records_have_a_reason(kind: str, reason: str) -> None:
    """By NIXL's failure type."""
    assert {("nixl", reason): 1} == counted(read(failure(kind)), "kv_transfer_failures_total")


def test_failure_records_are_never_folded() -> None:
    """Four ranks and two requests are eight records of one second."""
    reading = read(
        *(failure("handshake_failed", request, who=who) for who in (RANK0, RANK1, RANK2, RANK3) for request in ("cmpl-1", "cmpl-2"))
    )

    assert {("nixl", "handshake"): 8} == counted(reading, "kv_transfer_failures_total")


def test_bare_failure_without_context_counts() -> None:
    """Some records end after the type."""
    reading = read(line("NIXL transfer failure: transfer_failed", RANK0, level="ERROR"))

    assert {("nixl", "transfer"): 1} == counted(reading, "kv_transfer_failures_total")


MISMATCH = "RuntimeError: NIXL compatibility hash mismatch. Local: 3f0c, Remote: 9b9b. Prefill and decode instances have"


def test_mismatch_is_counted_once_a_handshake_and_not_again_for_each_request() -> None:
    """The text stands in the record of the setup and again in the record of each request that shared it."""
    lines = [
        line("NIXL transfer failure: handshake_setup_failed | Context: {'request_id': None}", RANK0, level="ERROR"),
        line("Traceback (most recent call last):", RANK0, level="ERROR"),
        line(MISMATCH, RANK0, level="ERROR"),
    ]
    for request in ("cmpl-1", "cmpl-2", "cmpl-3"):
        lines += [
            failure("handshake_failed", request, "03:14:21"),
            line("Traceback (most recent call last):", RANK0, "03:14:21", level="ERROR"),
            line(MISMATCH, RANK0, "03:14:21", level="ERROR"),
        ]
    reading = read(*lines)

    assert {("nixl", "mismatch"): 1} == counted(reading, "kv_compatibility_checks_total")
    assert {("nixl", "handshake_setup"): 1, ("nixl", "handshake"): 3} == counted(reading, "kv_transfer_failures_total")


def test_compatible_ranks_are_distinct_ranks_since_the_start() -> None:
    """Checks are counted each, ranks once."""
    passed = "NIXL compatibility check passed (hash: 3f0c8a5b)"
    reading = read(logo(), connector("kv_consumer"), line(passed, RANK0), line(passed, RANK1), line(passed, RANK0, "03:15:00"))

    assert {("nixl", "passed"): 3} == counted(reading, "kv_compatibility_checks_total")
    assert {("nixl",): 2} == reading.series("kv_compatible_ranks")


def test_transfer_plan_is_an_info_series() -> None:
    """Ratios may be negative where prefill has more ranks."""
    plan = "Transfer plan: TransferTopology(tp_ratio=-2, num_kv_heads=8, local_tp=4, remote_tp=8, remote_pp=0, local_rank=0)"

    assert {("4", "8", "-2"): 1} == read(line(plan, RANK0)).series("kv_transfer_plan_info")


# -- expiry and recompute ----------------------------------------------------------------------------------------------


def expired(request: str, who: str = RANK0, at: str = "03:14:20") -> str:
    """Prefill releases blocks that nobody fetched."""
    text = f"Releasing expired KV blocks for request {request} which were retrieved by 0 remote worker(s) before lease expired."
    return line(text, who, at, level="WARNING")


def late(request: str, who: str = RANK0) -> str:
    """Decode read blocks after their release."""
    text = f"Potentially invalid KV blocks for unrecognized request {request} were retrieved by a decode worker. They may have expired."
    return line(text, who, level="WARNING")


@pytest.mark.parametrize(
    ("lines", "requests"),
    [
        pytest.param([expired("cmpl-1", who) for who in (RANK0, RANK1, RANK2, RANK3)], 1, id="four-ranks"),
        pytest.param([expired("cmpl-1"), expired("cmpl-2"), expired("cmpl-1", RANK1)], 2, id="two-requests"),
        pytest.param([expired("cmpl-1", at="03:14:20"), expired("cmpl-1", RANK1, "03:24:20")], 1, id="within-ten-minutes"),
    ],
)
def test_expired_requests_are_distinct_requests(lines: list[str], requests: float) -> None:
    """Each rank says so of the same request."""
    assert {("nixl",): requests} == counted(read(*lines), "kv_expired_requests_total")


def test_late_reads_are_distinct_requests_and_counted_apart() -> None:
    """Expiry is a loss, a late read may be corruption."""
    reading = read(expired("cmpl-1"), late("cmpl-1"), late("cmpl-1", RANK1), late("cmpl-2"))

    assert {("nixl",): 1} == counted(reading, "kv_expired_requests_total")
    assert {("nixl",): 2} == counted(reading, "kv_reads_after_expiry_total")


def test_recovered_and_failed_loads_count_the_numbers_of_the_line() -> None:
    """Requests and tokens, not lines."""
    recovered = "Recovered from KV load failure: {} request(s) rescheduled ({} tokens affected)."
    failing = "Failing 4 request(s) due to KV load failure (failure_policy=fail, 3109 tokens affected). Request IDs: {'cmpl-1'}"
    reading = read(line(recovered.format(2, 808), API), line(recovered.format(1, 404), API), line(failing, API, level="ERROR"))

    assert {(): 3} == counted(reading, "kv_recomputed_requests_total")
    assert {(): 1212} == counted(reading, "kv_recomputed_tokens_total")
    assert {(): 4} == counted(reading, "kv_load_failed_requests_total")


def test_request_ids_are_in_no_series() -> None:
    """Request ids never leave the process."""
    reading = read(failure("transfer_failed", "cmpl-secret"), expired("cmpl-secret"), late("cmpl-secret"))

    assert not [each for each in reading.source.samples(None) if any("secret" in label for label in each.labels)]


# -- several connectors, torn lines, Ray -------------------------------------------------------------------------------


def nested(number: int) -> str:
    """One connector's share of a MultiConnector's line."""
    return f"{{'Num successful transfers': {number}, 'Avg xfer time (ms)': 2.0, 'Avg MB per transfer': 1.0, 'Num failed transfers': 1}}"


def test_each_connector_of_a_multi_connector_is_counted() -> None:
    """Not only the first."""
    text = f"KV Transfer metrics: NixlConnector={nested(4)}, MooncakeConnector={nested(3)}, OffloadingConnector={{'a': 1}}"
    reading = read(logo(), stats(), line(text))

    assert {("0", "nixl"): 4, ("0", "mooncake"): 3} == counted(reading, "kv_transfers_total")
    assert {("0", "nixl"): 1, ("0", "mooncake"): 1} == counted(reading, "kv_transfer_reported_failures_total")


def test_torn_line_is_given_to_no_connector() -> None:
    """The keys that tell NIXL from Mooncake come late."""
    whole = transfers(4)
    for end in range(whole.index("=4") + 2, whole.index("Avg MB")):
        assert {} == counted(read(logo(), stats(), whole[:end]), "kv_transfers_total")


@pytest.mark.parametrize(
    ("first", "family", "labels"),
    [
        pytest.param(failure("transfer_failed"), "kv_transfer_failures_total", ("nixl", "transfer"), id="failure"),
        pytest.param(
            line("NIXL compatibility check passed (hash: 3f0c8a5b)", RANK0), "kv_compatibility_checks_total", ("nixl", "passed"), id="check"
        ),
    ],
)
def test_rays_repetitions_are_records_of_other_workers(first: str, family: str, labels: tuple[str, ...]) -> None:
    """Ray prints equal lines of several workers once more with their number."""
    first = f"(RayWorkerWrapper pid=27972, ip=10.0.0.2) {first}"
    more = f"{first} [repeated 7x across cluster] (Ray deduplicates logs by default.)"

    assert 8 == read(logo(), first, more).value(family, *labels)


# -- push and bidirectional mode ---------------------------------------------------------------------------------------


def test_read_that_is_declined_is_an_expired_request() -> None:
    """The engine counts it so, too."""
    declined = line("Declining expired remote read for cmpl-1 from engine e6d0c1aa.", RANK0, level="WARNING")

    assert {("nixl",): 1} == counted(read(logo("0.33.0"), declined, declined), "kv_expired_requests_total")


def test_metadata_that_was_invalidated_must_be_checked_again() -> None:
    """A check that passed says nothing about the handshake to come."""
    passed = line("NIXL compatibility check passed (hash: 3f0c8a5b)", RANK0)
    invalid = line(
        "Local NIXL metadata for remote engine e6d0c1aa was invalidated; re-handshaking after reads drain.", RANK0, level="WARNING"
    )
    lines = [logo("0.33.0"), connector("kv_consumer"), READY, passed]

    assert "pass" == read(*lines).check("compatibility")
    assert "unknown" == read(*lines, invalid).check("compatibility")
    assert "pass" == read(*lines, invalid, passed).check("compatibility")


def test_error_of_the_push_writer_is_a_failure() -> None:
    """Its thread goes on; what it was at is lost."""
    reading = read(logo("0.33.0"), line("nixl-push-writer error; continuing", RANK0, level="ERROR"))

    assert {("nixl", "other"): 1} == counted(reading, "kv_transfer_failures_total")
