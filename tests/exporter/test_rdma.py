"""RDMA counters in a tree like sysfs: what is read, what cannot be, and what it says about KV."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from exporter.counters import Digest
from exporter.evidence.rdma import RdmaReading, RdmaTotals
from exporter.evidence.rdma_window import RdmaWindow
from exporter.state import Freezer, Thawer

from .conftest import POST, READY, Reading, Running, connector, core, logo, stats, transfers, wait_for

MIB = 1 << 20
NOW = 1_800_000_000.0


class Sysfs:
    """A tree with devices."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, path: str, value: object) -> None:
        """One counter."""
        file = self.root / "class/infiniband" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{value}\n")

    def mlx5(self, device: str = "mlx5_0", port: int = 1, *, received: object = 0, sent: object = 0, **hardware: int) -> None:
        """A port as mlx5 shows it."""
        self.write(f"{device}/ports/{port}/counters/port_rcv_data", received)
        self.write(f"{device}/ports/{port}/counters/port_xmit_data", sent)
        self.write(f"{device}/ports/{port}/link_layer", "InfiniBand")
        for name, value in hardware.items():
            self.write(f"{device}/ports/{port}/hw_counters/{name}", value)


class Totals:
    """The totals of a tree, looked at when a test says so."""

    def __init__(self, sysfs: Sysfs) -> None:
        self.readings: list[RdmaReading] = []
        self.totals = RdmaTotals(str(sysfs.root), self.readings.append)

    def look(self) -> dict[tuple[str, ...], float]:
        """All series now."""
        self.totals.look()
        return {(family, *labels): value for family, labels, value in self.totals.samples()}


@pytest.fixture
def sysfs(tmp_path: Path) -> Sysfs:
    """A machine without devices."""
    return Sysfs(tmp_path / "sys")


def test_words_become_bytes_from_the_first_look_on(sysfs: Sysfs) -> None:
    """Four octets each."""
    sysfs.mlx5(received=1000, sent=10, out_of_sequence=5, np_cnp_sent=7, lifespan=10)
    totals = Totals(sysfs)
    assert 0 == totals.look()["rdma_bytes_total", "mlx5_0", "1", "receive"]
    sysfs.mlx5(received=1500, sent=11, out_of_sequence=6, np_cnp_sent=7, lifespan=12)
    series = totals.look()

    assert {
        ("rdma_readable", "mlx5_0"): 1,
        ("rdma_bytes_total", "mlx5_0", "1", "receive"): 2000,
        ("rdma_bytes_total", "mlx5_0", "1", "transmit"): 4,
        ("rdma_hardware_events_total", "mlx5_0", "1", "out_of_sequence"): 1,
        ("rdma_hardware_events_total", "mlx5_0", "1", "np_cnp_sent"): 0,
    } == series


def test_efa_and_irdma_count_bytes(sysfs: Sysfs) -> None:
    """In counters of their own, of the port or of the device."""
    for step in (0, 1):
        sysfs.write("rdmap0s31/ports/1/hw_counters/rx_bytes", 100 + 50 * step)
        sysfs.write("rdmap0s31/ports/1/hw_counters/tx_bytes", 100 + 60 * step)
        sysfs.write("rdmap0s31/ports/1/hw_counters/rdma_read_bytes", 10)
        sysfs.write("rdmap0s31/ports/1/hw_counters/retrans_pkts", step)
        sysfs.write("irdma0/hw_counters/ip4InOctets", 10 + 5 * step)
        sysfs.write("irdma0/hw_counters/ip6InOctets", 10 + 5 * step)
        sysfs.write("irdma0/hw_counters/ip4OutOctets", 3 * step)
        sysfs.write("irdma0/ports/1/state", "4: ACTIVE")
        if step == 0:
            totals = Totals(sysfs)
        series = totals.look()

    assert (50, 60) == tuple(series["rdma_bytes_total", "rdmap0s31", "1", way] for way in ("receive", "transmit"))
    assert (10, 3) == tuple(series["rdma_bytes_total", "irdma0", "1", way] for way in ("receive", "transmit"))
    assert 1 == series["rdma_hardware_events_total", "rdmap0s31", "1", "retrans_pkts"]
    assert series["rdma_readable", "rdmap0s31"]
    assert series["rdma_readable", "irdma0"]


@pytest.mark.parametrize("text", ["N/A (no PMA)", "", "-1", "1e3", "x" * 100])
def test_what_is_no_number_is_not_readable(sysfs: Sysfs, text: str) -> None:
    """And never 0 bytes."""
    sysfs.mlx5(received=text, sent=5)
    series = Totals(sysfs).look()

    assert 0 == series["rdma_readable", "mlx5_0"]
    assert ("rdma_bytes_total", "mlx5_0", "1", "receive") not in series


def test_a_device_as_a_pod_sees_it(sysfs: Sysfs) -> None:
    """All devices are listed, none has counters."""
    sysfs.write("mlx5_0/ports/1/link_layer", "Ethernet")
    (sysfs.root / "class/infiniband/mlx5_1").mkdir()
    totals = Totals(sysfs)

    assert {("rdma_readable", "mlx5_0"): 0} == totals.look()
    assert totals.readings[-1].received is None


def test_reading_may_be_an_error(sysfs: Sysfs) -> None:
    """EINVAL of the driver, a dangling link as docker leaves it, a directory."""
    sysfs.mlx5()
    for number, name in enumerate(("port_rcv_data", "port_xmit_data")):
        file = sysfs.root / f"class/infiniband/mlx5_{number}/ports/1/counters/{name}"
        sysfs.mlx5(f"mlx5_{number}")
        file.unlink()
        os.symlink("/proc/self/mem" if number else "/nowhere", file)
    series = Totals(sysfs).look()

    assert (0, 0) == tuple(series["rdma_readable", f"mlx5_{number}"] for number in range(2))


def test_no_devices_no_series(sysfs: Sysfs, tmp_path: Path) -> None:
    """A machine without RDMA, and a root that is none."""
    totals = Totals(sysfs)
    assert {} == totals.look()
    assert totals.readings[-1].received is None
    (tmp_path / "sys").write_text("a file")
    assert {} == totals.look()


def test_a_reset_is_no_fall(sysfs: Sysfs) -> None:
    """What came since is counted."""
    totals = Totals(sysfs)
    for value in (1000, 1100, 20, 30):
        sysfs.mlx5(received=value)
        series = totals.look()

    assert 4 * (100 + 20 + 10) == series["rdma_bytes_total", "mlx5_0", "1", "receive"]


def test_a_port_that_is_gone_keeps_what_it_counted(sysfs: Sysfs) -> None:
    """And the sum of all is not known any more."""
    sysfs.mlx5("mlx5_0", received=1)
    sysfs.mlx5("mlx5_1", received=1)
    totals = Totals(sysfs)
    totals.look()
    sysfs.mlx5("mlx5_0", received=2)
    (sysfs.root / "class/infiniband/mlx5_1/ports/1/counters/port_rcv_data").unlink()
    series = totals.look()

    assert 4 == series["rdma_bytes_total", "mlx5_0", "1", "receive"]
    assert 0 == series["rdma_bytes_total", "mlx5_1", "1", "receive"]
    assert (1, 0) == (series["rdma_readable", "mlx5_0"], series["rdma_readable", "mlx5_1"])
    assert totals.readings[-1].received is None


def test_a_hostile_tree_is_bounded(sysfs: Sysfs) -> None:
    """Names that are no device's, and too many ports."""
    for number in range(300):
        sysfs.mlx5("mlx5_0", number)
    (sysfs.root / "class/infiniband/a b").mkdir()
    (sysfs.root / 'class/infiniband/x"}').mkdir()

    assert 256 * 2 + 1 == len(Totals(sysfs).look())


# -- the verdict's check -----------------------------------------------------------------------------------------------


def watched(*, received_a_reading: float, kv_a_line: float, seconds: int = 120, transports: tuple[str, ...] = ()) -> str:
    """The check after a while, in which readings and lines come every ten seconds."""
    window = RdmaWindow()
    for number in range(seconds // 10 + 1):
        at = NOW + 10 * number
        window.take(RdmaReading(at, received_a_reading * number))
        window.moved(at - NOW + 3, kv_a_line)
    return window.status(at + 4, at - NOW + 4, transports)


def test_kv_on_the_wire() -> None:
    """At least half of it, as other ports may have carried the rest."""
    assert "pass" == watched(received_a_reading=100 * MIB, kv_a_line=100 * MIB)
    assert "fail" == watched(received_a_reading=0, kv_a_line=100 * MIB)
    assert "fail" == watched(received_a_reading=10 * MIB, kv_a_line=100 * MIB)


@pytest.mark.parametrize(
    ("transports", "status"),
    [(("cuda_ipc", "sysv"), "unknown"), (("self",), "unknown"), (("tcp",), "fail"), (("rc_mlx5", "cuda_ipc"), "fail"), ((), "fail")],
)
def test_what_stays_on_the_machine_is_not_on_the_wire(transports: tuple[str, ...], status: str) -> None:
    """By the word of UCX."""
    assert status == watched(received_a_reading=0, kv_a_line=100 * MIB, transports=transports)


def test_little_kv_and_little_time_are_no_evidence() -> None:
    """Nor is the history of a log."""
    assert "unknown" == watched(received_a_reading=0, kv_a_line=1000)
    assert "unknown" == watched(received_a_reading=0, kv_a_line=100 * MIB, seconds=50)
    assert "unknown" == watched(received_a_reading=0, kv_a_line=0)


def test_old_kv_and_old_readings_do_not_count() -> None:
    """A backlog that is read at once; a thread that hangs."""
    window = RdmaWindow()
    for number in range(13):
        window.take(RdmaReading(NOW + 10 * number, 0.0))
        window.moved(10.0 * number, 100 * MIB)
    assert "fail" == window.status(NOW + 121, 121.0)
    assert "unknown" == window.status(NOW + 121, 1000.0)
    assert "unknown" == window.status(NOW + 160, 121.0)
    assert "unknown" == window.status(NOW + 121, None)


def test_a_burst_is_compared_with_the_time_in_which_it_came() -> None:
    """Its line comes up to an interval later, the reading of the ports at any time."""
    for offset in range(10):
        window, received = RdmaWindow(), 0.0
        for number in range(13):
            received += 100 * MIB if number == 9 else 0
            window.take(RdmaReading(NOW + 10 * number + offset, received))
        window.moved(100.0, 100 * MIB)
        for later in range(0, 60, 3):
            window.take(RdmaReading(NOW + 130 + later, received))
            assert window.status(NOW + 130 + later, 130.0 + later) in ("pass", "unknown"), (offset, later)


def test_other_ports_than_before_are_no_evidence() -> None:
    """After a reload with another root they count from 0 again."""
    window = RdmaWindow()
    for number, received in enumerate([500.0, 600.0, 700.0, 800.0, 900.0, 1000.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]):
        window.take(RdmaReading(NOW + 10 * number, received * MIB))
        window.moved(10.0 * number, 100 * MIB)
    assert "unknown" == window.status(NOW + 121, 121.0)


@pytest.mark.parametrize(("a_reading", "status"), [(800.0 * MIB, "pass"), (0.0, "fail")])
def test_what_was_seen_on_the_wire_is_known_after_a_restart(a_reading: float, status: str) -> None:
    """Half of the window is from the process before."""
    window, digest = RdmaWindow(), Digest()
    for number in range(13):
        if number == 8:
            saved = json.dumps(Freezer(digest).state(window))
            window = RdmaWindow()
            assert "unknown" == window.status(NOW + 71, 71.0)
            Thawer().restore(window, json.loads(saved))
        window.take(RdmaReading(NOW + 10 * number, a_reading * number))
        window.moved(10.0 * number, 100 * MIB)
        assert number < 8 or status == window.status(NOW + 10 * number + 1, 10.0 * number + 1)


def test_the_check_is_part_of_the_verdict() -> None:
    """A pair that looks proven, and whose KV came by another way than it should."""

    def verdict(rate: float, *more: str) -> tuple[str, str]:
        reading = Reading().feed(logo("0.32.0"), core("0.32.0"), connector("kv_consumer"), READY, *more, arrival=NOW)
        for number in range(13):
            at, clock = NOW + 10 * number, f"03:{14 + number // 6}:{number % 6}0"
            reading.source.witness([RdmaReading(at, rate * number)], [])
            reading.feed(POST, POST, stats(clock, prompt=1.0, generation=40.0), transfers(8, clock, size=100.0), arrival=at)
        now = at + 1
        (status,) = [labels[1] for labels, value in reading.series("pd_evidence", now).items() if labels[0] == "rdma_growing" and value]
        (found,) = [labels[0] for labels, value in reading.series("pd_verdict", now).items() if value]
        return status, found

    assert ("pass", "proven") == verdict(800.0 * MIB)
    assert ("fail", "unproven") == verdict(0.0)
    ucx = "[1795958101.123456] [host:4242 :0]      ucp_worker.c:1888 UCX  INFO    inter-node cfg#1 rma_am({0}/dev) am({0}/dev)  ka({0}/dev)"
    assert ("fail", "unproven") == verdict(0.0, ucx.format("tcp")), "silently on TCP"
    assert ("unknown", "proven") == verdict(0.0, ucx.format("cuda_ipc")), "both engines on one machine"


# -- the daemon --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_counters_go_on_after_a_kill(run: Callable[..., Running], tmp_path: Path, sysfs: Sysfs) -> None:
    """They are in the state file, and what was counted meanwhile is counted."""
    sysfs.mlx5(received=1000)
    (tmp_path / "a.log").write_text(f"{logo()}\n{core()}\n{READY}\n")
    (tmp_path / "inferlog.yaml").write_text("rdma_sysfs_root: sys\nsources: [{name: a, path: a.log}]")
    arguments = ("--config", str(tmp_path / "inferlog.yaml"), "--state-file", str(tmp_path / "state.json"), "--web.enable-lifecycle")
    daemon = run(*arguments).wait_ready()
    daemon.wait_value(1, "inferlog_rdma_readable", device="mlx5_0")
    assert 0 == daemon.value("inferlog_rdma_bytes_total", direction="receive")
    wait_for(lambda: "(rdma)" in (tmp_path / "state.json").read_text(), "the state")
    for value, total in ((1100, 400), (1200, 800)):
        daemon.kill()
        sysfs.mlx5(received=value)
        daemon = run(*arguments).wait_ready()
        daemon.wait_value(total, "inferlog_rdma_bytes_total", direction="receive")
    (tmp_path / "inferlog.yaml").write_text("sources: [{name: a, path: a.log}]")
    assert 200 == daemon.get("/-/reload", method="POST")[0]
    assert daemon.value("inferlog_rdma_bytes_total") is None
