"""NIXL and UCX beside an engine and without one: what counts, what is one record, and what says how KV travels."""

import pytest

from exporter.clock import EventClock
from exporter.source import Source

from .conftest import CORE, RANK0, Reading, connector, core, line, logo, read, stats

STARTED = (logo(), core())


def ucx(message: str, pid: int = 11992, at: str = "1795957145.699246", level: str = "WARN", where: str = "ucp_context.c:1508") -> str:
    """A line of UCX."""
    return f"[{at}] [vm:{pid}:0]     {where} UCX  {level:<5} {message}"


def native(message: str, level: str = "E", where: str = "nixl_agent.cpp:1198", tid: int = 2604) -> str:
    """A record of NIXL's C++ half."""
    return f"{level}0714 03:16:00.832085    {tid} {where}] {message}"


def endpoint(lanes: str, kind: str = "inter-node", agent: str = "8d7b39a2-2f5e", at: str = "1795957114.942037", pid: int = 11992) -> str:
    """How UCX reaches a peer, told at level INFO."""
    return ucx(f"  {agent} {kind} cfg#1 {lanes}", pid, at, level="INFO", where="ucp_worker.c:1997")


def errors(reading: Reading) -> dict[tuple[str, ...], float]:
    """Native ERROR records by library."""
    return {labels: value for labels, value in reading.series("transport_errors_total").items() if value}


# -- errors ------------------------------------------------------------------------------------------------------------

QUEUE_PAIR = "RC QP 0x33945 wqe[386]: SEND s-e [va 0x14ebbaf7d680 len 474 lkey 0x70f41]"
RETRIES = "Transport retry count exceeded on mlx5_1:1/IB (synd 0x15 vend 0x81 hw_synd 0/0)"
LOST = "postXferReq: remote agent 'target-agent' was disconnected after transfer request creation"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param([native(LOST), native(LOST)], {("nixl",): 2}, id="each-record"),
        pytest.param(
            [f"({CORE}) (RayWorkerWrapper pid=4) {native(LOST)} [repeated 3x across cluster]"], {("nixl",): 3}, id="Ray-folds-three"
        ),
        pytest.param(
            [
                native("Deserialization failed, missing nixlSerDes tag", where="serdes.cpp:160"),
                native("loadRemoteMD: failed to deserialize remote metadata"),
            ],
            {("nixl",): 1},
            id="two-halves-of-one-error",
        ),
        pytest.param(
            [native("Failed to create engine: Failed to create UCX context a1: No such device", where="backend_plugin.h:102")],
            {("nixl",): 1},
            id="header-of-the-library",
        ),
        pytest.param([native("x", level="W")], {}, id="a-warning"),
        pytest.param([native("x", where="other.cc:1")], {}, id="another-library"),
        pytest.param(
            [
                ucx("no usable transports/devices (asked rc on network:)", level="ERROR"),
                ucx("x", level="FATAL", at="1795957145.700000"),
            ],
            {("ucx",): 2},
            id="UCX",
        ),
        pytest.param(
            [ucx(text, level="ERROR", where="ib_mlx5_log.c:177") for text in (RETRIES, QUEUE_PAIR)],
            {("ucx",): 1},
            id="two-lines-of-one-record",
        ),
        pytest.param(
            [ucx(text, pid, level="ERROR", where="ib_mlx5_log.c:177") for text in (RETRIES, QUEUE_PAIR) for pid in (7, 8)],
            {("ucx",): 2},
            id="interleaved-processes",
        ),
        pytest.param(
            [f"[vm:108757:0:108757] ib_mlx5_log.c:136  {text}" for text in (RETRIES, QUEUE_PAIR)],
            {("ucx",): 1},
            id="the-form-that-ends-the-process",
        ),
        pytest.param(
            [
                ucx("connect(fd=26, dest_addr=127.0.0.1:53457) failed: Connection refused", level="ERROR", where="sock.c:355"),
                ucx('try to increase "net.core.somaxconn", "net.core.netdev_max_backlog"', level="ERROR", where="tcp_ep.c:1234"),
            ],
            {("ucx",): 1},
            id="a-hint-is-none",
        ),
    ],
)
def test_native_errors_count_by_library(lines: list[str], expected: dict[tuple[str, ...], float]) -> None:
    """Each record counts once, whatever number of lines it has, and none is an unknown one."""
    reading = read(*STARTED, *lines)

    assert expected == errors(reading)
    assert not reading.value("unrecognised_lines_total", "ERROR") or "other.cc" in lines[0]


def test_a_native_error_is_no_failed_transfer() -> None:
    """The engine has a record of its own for each request; NIXL's is beside it."""
    record = "NIXL transfer failure: transfer_setup_failed | Context: {'failure_type': 'transfer_setup_failed', 'request_id': 'cmpl-1'}"
    reading = read(*STARTED, native(LOST), line(record, RANK0, "03:16:00", level="ERROR"))

    assert {("nixl", "transfer_setup"): 1} == {key: value for key, value in reading.series("kv_transfer_failures_total").items() if value}
    assert {("nixl",): 1} == errors(reading)


def test_memory_that_cannot_be_registered_is_a_failure_and_an_error() -> None:
    """The engine says nothing of its own but the traceback."""
    reading = read(*STARTED, native("registerMem: registration failed for the specified or all potential backends"))

    assert 1 == reading.value("kv_transfer_failures_total", "nixl", "registration")
    assert {("nixl",): 1} == errors(reading)


def test_an_agent_s_name_shows_nowhere() -> None:
    """It is a uuid of each process, or whatever somebody called it."""
    reading = read(*STARTED, native(LOST), endpoint("rma(rc_mlx5/mlx5_0:1)", agent="secret-agent"))

    assert {("rc_mlx5",): 1} == reading.series("kv_transport_info")
    assert not [sample for sample in reading.source.samples(None) if "agent" in " ".join(sample.labels)]


# -- hazards -----------------------------------------------------------------------------------------------------------

NO_DEVICE = "network device 'mlx5_9:1' is not available, please use one or more of: 'eth0'(tcp), 'lo'(tcp)"
TYPO = "unused environment variable: UCX_TLSS (maybe: UCX_TLS?)"
HINT = "(set UCX_WARN_UNUSED_ENV_VARS=n to suppress this warning)"
PORT = (
    "Prometheus telemetry endpoint '127.0.0.1:9090' could not be bound (likely already in use by another process); "
    "this process will run without a telemetry sink"
)


@pytest.mark.parametrize(
    ("lines", "kind", "sightings"),
    [
        pytest.param([ucx(NO_DEVICE)], "kv_transport_degraded", 1, id="device"),
        pytest.param([ucx(NO_DEVICE, pid) for pid in range(20, 28)], "kv_transport_degraded", 1, id="device-on-all-ranks"),
        pytest.param([ucx(NO_DEVICE), ucx(NO_DEVICE, at="1795957145.900000")], "kv_transport_degraded", 2, id="one-process-twice"),
        pytest.param([ucx("transport 'rc' is not available, please use one or more of: tcp")], "kv_transport_degraded", 1, id="transport"),
        pytest.param([ucx(TYPO), ucx(HINT)], "unknown_env", 1, id="variable-with-its-hint"),
        pytest.param([ucx(text, pid) for text in (TYPO, HINT) for pid in (20, 21)], "unknown_env", 1, id="variable-on-two-ranks"),
        pytest.param(
            [native(PORT, "W", "telemetry.cpp:106", tid) for tid in range(7)], "kv_telemetry_missing", 1, id="seven-ranks-without-port"
        ),
        pytest.param([native("createBackend: unsupported backend 'X'")], "kv_connector_unavailable", 1, id="plugin-missing"),
        pytest.param([native("createBackend: backend already created for type 'UCX'")], "kv_connector_unavailable", 0, id="plugin-there"),
        pytest.param(
            ["2026-07-14 03:12:20 NIXL ERROR   _api.py:240 No plugins available, cannot start transfers!"],
            "kv_connector_unavailable",
            1,
            id="no-plugin-at-all",
        ),
        pytest.param(
            [native("8 NVIDIA GPU(s) were detected, but UCX CUDA support was not found! GPU memory is not supported.", "W")],
            "kv_transport_degraded",
            1,
            id="UCX-without-CUDA",
        ),
    ],
)
def test_what_nixl_and_ucx_warn_of(lines: list[str], kind: str, sightings: float) -> None:
    """Once for all ranks, which their numbers tell apart."""
    reading = read(*STARTED, line("x", at="03:12:20"), *lines)

    assert sightings == reading.value("config_hazards_total", kind)
    assert not reading.value("unrecognised_lines_total", "WARNING")


# -- what carries KV ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "transports"),
    [
        pytest.param([], [], id="not-told"),
        pytest.param([endpoint("rma_am(tcp/lo)  amo_am(tcp/lo)  am(tcp/lo)  ka(tcp/lo)")], ["tcp"], id="emulated-over-tcp"),
        pytest.param([endpoint("rma(rc_mlx5/mlx5_0:1 rc_mlx5/mlx5_1:1)  am(rc_mlx5/mlx5_0:1)")], ["rc_mlx5"], id="two-rails"),
        pytest.param([endpoint("rma(cuda_ipc/cuda rc_mlx5/mlx5_0:1)", "intra-node")], ["cuda_ipc", "rc_mlx5"], id="two-transports"),
        pytest.param(
            [
                endpoint(
                    "rma_am(tcp/eth0)  amo_am(tcp/eth0)  device(cuda_ipc/cuda)  am(tcp/eth0 cma/memory cuda_ipc/cuda)  ka(tcp/eth0)",
                    "intra-node",
                )
            ],
            ["tcp"],
            id="messages-carry-no-KV",
        ),
        pytest.param([endpoint("rma(sesame/mlx5_0:1 tcp/eth0)")], ["other", "tcp"], id="a-word-that-is-no-transport"),
        pytest.param([endpoint("rma_am(tcp/lo)", "self")], [], id="an-agent-and-itself"),
        pytest.param([endpoint("tag(rc_mlx5/mlx5_0:1)")], [], id="another-program-s-messages"),
        pytest.param(
            [endpoint("rma(rc_mlx5/mlx5_0:1)"), endpoint("rma_am(tcp/eth0)", at="1795957115.031111")], ["tcp"], id="the-last-peer"
        ),
        pytest.param(
            [endpoint("rma(rc_mlx5/mlx5_0:1)"), endpoint("rma_am(tcp/lo)", "self", at="1795957115.031111")],
            ["rc_mlx5"],
            id="and-not-itself",
        ),
        pytest.param([endpoint("rma(rc_mlx5/mlx5_0:1)"), logo(at="03:30:00")], [], id="new-process"),
    ],
)
def test_transport_that_reaches_the_peer_s_memory(lines: list[str], transports: list[str]) -> None:
    """The lanes of remote memory access, native or emulated, of the endpoint set up last."""
    reading = read(*STARTED, *lines)

    assert {(each,): 1.0 for each in transports} == reading.series("kv_transport_info")


def test_transports_are_those_of_all_processes() -> None:
    """Three ranks write by RDMA, one by TCP; each of them also has a neighbour, and one sets its connection up again."""
    lanes = {11: "rma(rc_mlx5/mlx5_0:1)", 12: "rma(rc_mlx5/mlx5_1:1)", 13: "rma(rc_mlx5/mlx5_2:1)", 14: "rma_am(tcp/eth0)"}
    lines = [endpoint(lane, pid=pid, at=f"17959571{pid}.706278") for pid, lane in lanes.items()]
    reading = read(*STARTED, *lines)
    assert reading.series("kv_transport_info") == {("rc_mlx5",): 1, ("tcp",): 1}

    reading.feed(endpoint("rma(cuda_ipc/cuda)", "intra-node", pid=14, at="1795957120.706278"))
    assert reading.series("kv_transport_info") == {("rc_mlx5",): 1, ("tcp",): 1, ("cuda_ipc",): 1}

    reading.feed(endpoint("rma(rc_mlx5/mlx5_3:1)", pid=14, at="1795957121.706278"))
    assert reading.series("kv_transport_info") == {("rc_mlx5",): 1, ("cuda_ipc",): 1}


def test_ucx_time_is_utc_and_leaves_the_log_s_own_clock_alone() -> None:
    """An engine that prints local time is an hour ahead: its lines keep it, UCX's event has the real time."""
    source = Source("s", year=2026)
    found = source.feed(f"{stats('03:15:50')}\n{ucx(NO_DEVICE, at='1783995350.250000')}\n{stats('03:16:00')}\n".encode())

    times = {type(event).__name__: EventClock(3600).epoch(head) for event, head in found}
    assert 1783995350.25 == times["Hazard"]
    assert 1783995360 == times["IntervalStats"]


# -- components, and NIXL without an engine ----------------------------------------------------------------------------


def test_versions_and_backend_are_components() -> None:
    """Told at the start of an agent, once a rank."""
    reading = read(
        *STARTED,
        *[native("NIXL version: 1.5.1 (git: 1d2a52eb)", "I", "nixl_log.cpp:80", tid) for tid in (1, 2)],
        ucx("Version 1.23.0 (loaded from /usr/lib/libucp.so.0, git branch <unknown>, revision 65e342a)", level="INFO"),
        "2026-07-14 03:12:20 NIXL INFO    _api.py:405 Backend UCX was instantiated",
    )

    assert {("nixl", "1.5.1"): 1, ("ucx", "1.23.0"): 1, ("nixl_backend", "UCX"): 1} == reading.series("component_info")


def test_nixl_alone_is_no_engine_and_counts_all_the_same() -> None:
    """A test script's log: its runtime is unknown, and no P/D pair is judged."""
    reading = read(native(LOST), endpoint("rma_am(tcp/lo)", "intra-node"))

    assert "unknown" == reading.source.runtime
    assert {("nixl",): 1} == errors(reading)
    assert {("tcp",): 1} == reading.series("kv_transport_info")
    assert 1 == reading.value("pd_verdict", "not_judged")


def test_a_pair_whose_memory_is_not_registered_has_tried() -> None:
    """That is more than a router that never asked."""
    reading = read(
        logo(), connector("kv_consumer"), core(), native("registerMem: registration failed for the specified or all potential backends")
    )

    assert not reading.value("pd_verdict", "router_bypass")
