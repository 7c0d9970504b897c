"""The connectors beside NIXL: whose words a record has, and what counts as one failed attempt."""

import pytest

from .conftest import API, RANK0, READY, Reading, arguments, line, logo, read, stats, transfers

FAILURES = "kv_transfer_failures_total"


def counted(reading: Reading, family: str) -> dict[tuple[str, ...], float]:
    """The series of a counter that are not 0."""
    return {labels: value for labels, value in reading.series(family).items() if value}


def error(message: str) -> str:
    """A record of level ERROR of a worker."""
    return line(message, RANK0, level="ERROR")


def using(connector: str) -> str:
    """The arguments of an engine with this connector."""
    return arguments(f"'kv_transfer_config': KVTransferConfig(kv_connector='{connector}', kv_role='kv_consumer')")


# -- Mooncake ----------------------------------------------------------------------------------------------------------

PULL = "pulling kv_caches for ['cmpl-1', 'cmpl-2'] failed: "


@pytest.mark.parametrize(
    ("messages", "wanted"),
    [
        pytest.param([PULL + "transfer failed: Resource temporarily unavailable"], {"transfer": 1}, id="pull"),
        pytest.param([PULL + "Timeout waiting for P side ready."], {"timeout": 1}, id="prefill-late"),
        pytest.param(["MooncakeXferMetadata transfer failed for {'cmpl-1'}: timed out"], {"transfer": 1}, id="0.26-no-answer"),
        pytest.param(["Error happens during transferring kvcache for {'cmpl-1'}: bad"], {"transfer": 1}, id="0.26-refused"),
        pytest.param(["Sending to 192.0.2.2:15731 failed (ret=-1) after 0.1 (64 descriptors, 8 bytes)"], {"transfer": 1}, id="send"),
        pytest.param(["Timeout waiting for P side ready: ['cmpl-1']"], {"timeout": 1}, id="not-computed-yet"),
        pytest.param(["Failed to connect to bootstrap server http://192.0.2.1:8998: refused"], {"bootstrap": 1}, id="bootstrap"),
        pytest.param(
            [
                "Failed to connect to bootstrap server http://192.0.2.1:8998 (ConnectError): refused",
                PULL + "remote engine_id e6d0c1aa not found from bootstrap server http://192.0.2.1:8998",
            ],
            {"bootstrap": 1, "handshake": 1},
            id="one-query-one-handshake",
        ),
    ],
)
def test_failures_of_mooncake(messages: list[str], wanted: dict[str, float]) -> None:
    """Each attempt is one, whatever its record names."""
    reading = read(logo("0.33.0"), *map(error, messages))

    assert {("mooncake", reason): number for reason, number in wanted.items()} == counted(reading, FAILURES)
    assert {"ERROR": 0} == {
        labels[0]: value for labels, value in reading.series("unrecognised_lines_total").items() if labels == ("ERROR",)
    }


def test_all_requests_of_a_failed_pull_are_evidence() -> None:
    """One record names them all."""
    reading = read(logo("0.33.0"), using("MooncakeConnector"), READY, error(PULL + "transfer error"), stats(prompt=1.0))

    assert 2 == reading.source.engine.evidence.closed[-1].failures


def test_blocks_that_mooncake_never_sent_expire() -> None:
    """Every rank says so: a request is one."""
    gone = "Request {} timed out after 480 seconds without being sent. Freeing its blocks on the producer side."
    reading = read(logo("0.13.0"), *(line(gone.format(each), RANK0, level="WARNING") for each in ("cmpl-1", "cmpl-1", "cmpl-2")))

    assert {("mooncake",): 2} == counted(reading, "kv_expired_requests_total")


def test_mooncake_reports_failed_sends_and_receives() -> None:
    """Each of the two keys is another side's."""
    text = (
        "KV Transfer metrics: Num successful transfers=0, Avg xfer time (ms)=0, P90 xfer time (ms)=0, Avg MB per transfer=0, "
        "Throughput (MB/s)=0, Avg number of descriptors=0, Num failed transfers=1, Num failed recvs=2, Num KV expired reqs=0"
    )
    reading = read(logo("0.26.0"), stats(), line(text))

    assert {("0", "mooncake"): 3} == counted(reading, "kv_transfer_reported_failures_total")


@pytest.mark.parametrize(
    ("version", "born"), [("0.21.0", {("0", "mooncake")}), ("0.20.0", set()), ("0.33.0", {("0", "mooncake")})]
)  # fmt: skip
def test_reported_failures_of_mooncake_exist_since_0_21(version: str, born: set[tuple[str, str]]) -> None:
    """A counter at 0 is a promise that the engine would tell."""
    assert born == set(read(logo(version), using("MooncakeConnector")).series("kv_transfer_reported_failures_total"))


def test_reported_failures_of_mooncake_tell_no_version() -> None:
    """Of NIXL's they do: it has had them since 0.31."""
    mooncake = transfers(0, more=", Num failed recvs=2").replace("Avg post time (ms)=0, P90 post time (ms)=0, ", "")

    assert read(stats(), mooncake).source.engine.settings.version is None
    assert read(stats(), transfers(0, more=", Num failed transfers=2")).source.engine.settings.version == (0, 31)


# -- MoRIIO ------------------------------------------------------------------------------------------------------------

HANDSHAKE = "Handshake with e6d0c1aa failed"


@pytest.mark.parametrize(
    ("before", "file", "wanted"),
    [
        pytest.param([logo("0.26.0"), using("NixlConnector")], "module.py", "nixl", id="connector-nixl"),
        pytest.param([logo("0.13.0"), using("MoRIIOConnector")], "module.py", "moriio", id="connector-moriio"),
        pytest.param([logo("0.13.0")], "moriio_connector.py", "nixl", id="version-before"),
        pytest.param([logo("0.14.0")], "module.py", "moriio", id="version-since"),
        pytest.param([logo("0.33.0"), using("MultiConnector")], "module.py", "moriio", id="connector-of-several"),
        pytest.param([], "moriio_connector.py", "moriio", id="file"),
        pytest.param([], "nixl_connector.py", "nixl", id="other-file"),
    ],
)
def test_whose_handshake_failed(before: list[str], file: str, wanted: str) -> None:
    """Two connectors have the same words."""
    reading = read(*before, error(HANDSHAKE).replace("module.py", file))

    assert {(wanted, "handshake"): 1} == counted(reading, FAILURES)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("Eager MoRIIO handshake failed for e6d0c1aa_dp0", "handshake"),
        ("Write task failed for request cmpl-1, marking done", "transfer"),
        ("Deferred write task failed for request cmpl-1, marking done", "transfer"),
        ("Deferred write task for request cmpl-1 timed out after 60.2s waiting for remote blocks", "timeout"),
        ("Deferred write task for request cmpl-1 expired after 60.2s (remote blocks never arrived), marking done", "timeout"),
        ("RDMA transfer failed for request cmpl-1: RNIC timeout (code=7). Notifying prefill", "transfer"),
        ("RDMA read TIMED OUT for req cmpl-1 after 30.0s (kv_connector_extra_config.recv_abort_timeout=30)", "timeout"),
    ],
)
def test_failures_of_moriio(message: str, reason: str) -> None:
    """Handshakes, reads of decode, writes of prefill."""
    assert {("moriio", reason): 1} == counted(read(logo("0.33.0"), error(message)), FAILURES)


# -- names -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("NixlConnector", "nixl"),
        ("NixlPullConnector", "nixl"),
        ("NixlPushConnector", "nixl"),
        ("MooncakeConnector", "mooncake"),
        ("MooncakeStoreConnector", "mooncakestore"),
        ("MoRIIOConnector", "moriio"),
        ("LMCacheConnectorV1", "lmcache"),
        ("LMCacheMPConnector", "lmcache"),
        ("HF3FSKVConnector", "hf3fs"),
        ("OffloadingConnector", "offloading"),
        ("SimpleCPUOffloadConnector", "offloading"),
        ("P2pNcclConnector", "p2pnccl"),
        ("FlexKVConnectorV1", "flexkv"),
        ("MyOwnConnector", "other"),
    ],
)
def test_a_connector_has_one_name(name: str, label: str) -> None:
    """In the arguments and in a MultiConnector's line."""
    values = "{'Num successful transfers': 4, 'Avg xfer time (ms)': 2.0, 'Avg MB per transfer': 1.0}"
    reading = read(logo("0.33.0"), using(name), stats(), line(f"KV Transfer metrics: {name}={values}", API))

    assert {("0", label): 4} == counted(reading, "kv_transfers_total")
    assert reading.source.engine.settings.connector == ("" if label == "other" else label)


# -- stores ------------------------------------------------------------------------------------------------------------

MIB = 2**20
OFFLOADED = "vllm:kv_offload_load_bytes={}, vllm:kv_offload_load_time=0.25, vllm:kv_offload_load_size_count=2, vllm:kv_offload_store_bytes={}, vllm:kv_offload_store_time=0.5, vllm:kv_offload_store_size_count=4, vllm:kv_offload_tiering_read_bytes:('fs',)=7"
STORED = (
    "load_get_count=2, load_get_avg_ms=2.0, load_get_p90_ms=2.1, load_get_total_keys=8, load_get_total_bytes=1048576, load_get_failed_keys=0, "
    "load_get_error_count=0, save_exists_count=3, save_exists_avg_ms=9.0, save_exists_p90_ms=9.0, save_exists_total_keys=12, "
    "save_exists_total_bytes=0, save_exists_failed_keys=0, save_exists_error_count=1"
)
HF3FS = (
    "Num transfers task=7, Num save task success=4, Num save task failed=1, Num load task success=2, Num load task failed=2, "
    "Avg save duration (ms)=3.0, P90 save duration (ms)=3.5, Avg load duration (ms)=2.0, P90 load duration (ms)=2.5"
)
STORES = {
    # a line's text, its connector, and transfers, seconds, bytes and failures
    "offloading": (OFFLOADED.format(MIB, 2 * MIB), "OffloadingConnector", (6, 0.75, 3 * MIB, None)),
    "offloading-0.20": (
        f"GPU_to_CPU_total_bytes={MIB}, GPU_to_CPU_total_time=0.5, CPU_to_GPU_total_bytes={MIB}, CPU_to_GPU_total_time=0.25",
        "OffloadingConnector",
        (None, 0.75, 2 * MIB, None),
    ),
    "mooncakestore": (STORED, "MooncakeStoreConnector", (2, 0.004, MIB, 1)),
    "hf3fs": (HF3FS, "HF3FSKVConnector", (6, 0.016, None, 3)),
}


def nested(text: str) -> str:
    """The line's pairs as a MultiConnector prints them."""
    return ", ".join("'{}': {}".format(*pair.rsplit("=", 1)) for pair in text.split(", "))


@pytest.mark.parametrize("multi", [False, True])
@pytest.mark.parametrize("store", STORES)
def test_stores_tell_what_they_moved(store: str, multi: bool) -> None:
    """Saves and loads together, whatever keys the connector prints; such a line proves nothing of a pair."""
    text, connector, wanted = STORES[store]
    line_ = line(f"KV Transfer metrics: {connector}={{{nested(text)}}}" if multi else f"KV Transfer metrics: {text}")
    reading = read(logo("0.33.0"), using("NixlConnector"), READY, stats(), line_)

    families = ("kv_transfers_total", "kv_transfer_seconds_total", "kv_transfer_bytes_total", "kv_transfer_reported_failures_total")
    label = store.partition("-")[0]
    for family, value in zip(families, wanted, strict=True):
        assert ({} if value is None else {("0", label): pytest.approx(value)}) == counted(reading, family), family
    assert "unknown" == reading.check("transfers_growing")
    assert {} == counted(reading, "rule_errors_total")


@pytest.mark.parametrize("store", STORES)
def test_torn_line_of_a_store_tells_no_more_than_the_whole(store: str) -> None:
    """What is cut off is missing, never more."""
    whole = f"KV Transfer metrics: {STORES[store][0]}"
    told = read(logo(), stats(), line(whole)).series("kv_transfer_bytes_total")
    for end in range(len(whole)):
        for labels, value in read(logo(), stats(), line(whole[:end])).series("kv_transfer_bytes_total").items():
            assert value <= told[labels]
