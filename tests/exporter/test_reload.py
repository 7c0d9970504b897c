"""Sources that come and go while `inferlog run` goes on: another configuration, new pods, restarted containers."""

import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import READY, Running, core, line, logo, wait_for

pytestmark = pytest.mark.slow

Start = Callable[..., Running]

BOOT = "".join(f"{each}\n" for each in (logo(), core(), line("GPU KV cache size: 640 tokens"), READY))
POOL = "inferlog_kv_cache_size_tokens"
STARTS = "inferlog_engine_starts_total"


def post(daemon: Running, path: str = "/-/reload") -> tuple[int, str]:
    """An empty POST request; status and body."""
    return daemon.get(path, method="POST")


class Configured:
    """A daemon with a configuration file that changes."""

    def __init__(self, run: Start, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "inferlog.yaml"
        for name in ("a", "b"):
            (folder / f"{name}.log").write_text(BOOT)
        self.write("sources: [{name: a, path: a.log}]")
        self.daemon = run("--config", str(self.file), "--state-file", str(folder / "state.json"), "--web.enable-lifecycle").wait_ready()

    def write(self, text: str) -> None:
        """Change the configuration file."""
        self.file.write_text(text)

    def successful(self) -> float | None:
        """What the metric says of the last reload."""
        return self.daemon.value("inferlog_config_last_reload_successful")


@pytest.fixture
def configured(run: Start, tmp_path: Path) -> Configured:
    """One source of two possible ones."""
    return Configured(run, tmp_path)


def test_a_source_is_added_and_the_other_loses_nothing(configured: Configured) -> None:
    """Its counters go on, with the labels that it has now."""
    daemon = configured.daemon
    assert 1 == daemon.value(STARTS, source="a")
    configured.write("sources: [{name: a, path: a.log, labels: {pd_group: g1}, pd_role: decode}, {name: b, path: b.log}]")
    assert (200, "configuration reloaded\n") == post(daemon)

    daemon.wait_value(640, POOL, source="b")
    assert 1 == daemon.value(STARTS, source="a", pd_group="g1")
    assert 4 == daemon.value("inferlog_log_lines_total", source="a")
    assert 1 == daemon.value("inferlog_pd_role", source="a", role="decode")
    assert 1 == configured.successful()


def test_a_source_that_was_taken_out_is_gone(configured: Configured) -> None:
    """With all its series, so that they go stale."""
    configured.write("sources: [{name: b, path: b.log}]")
    assert 200 == post(configured.daemon)[0]
    configured.daemon.wait_value(640, POOL, source="b")
    assert configured.daemon.value(STARTS, source="a") is None


def test_a_path_is_taken_out_and_what_it_gave_stays_counted(configured: Configured) -> None:
    """One source of two files becomes one of one."""
    daemon = configured.daemon
    configured.write("sources: [{name: a, paths: [a.log, b.log]}]")
    assert 200 == post(daemon)[0]
    daemon.wait_value(8, "inferlog_log_lines_total", source="a")
    size = daemon.value("inferlog_source_read_bytes_total")
    configured.write("sources: [{name: a, paths: [a.log]}]")
    assert 200 == post(daemon)[0]
    with (configured.folder / "b.log").open("a") as log:
        log.write(f"{line('nobody reads this')}\n")
    with (configured.folder / "a.log").open("a") as log:
        log.write(f"{line('but this')}\n")
    daemon.wait_value(9, "inferlog_log_lines_total", source="a")
    assert size
    assert size + len(f"{line('but this')}\n") == daemon.value("inferlog_source_read_bytes_total")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("sources: [{name: a, path: a.log, pd_rol: both}]", "did you mean 'pd_role'?"),
        ("sources: [", "inferlog.yaml"),
        ("", "the file is empty"),
    ],
)
def test_a_bad_configuration_leaves_the_old_one_in_force(configured: Configured, text: str, reason: str) -> None:
    """The answer, the log and the metric say so; a good one later is taken."""
    daemon = configured.daemon
    configured.write(text)
    status, body = post(daemon)
    assert 500 == status
    assert reason in body
    assert 0 == configured.successful()
    assert 640 == daemon.value(POOL, source="a")
    assert "configuration not reloaded" in daemon.errors.read_text()

    configured.write("sources: [{name: a, path: a.log}]")
    assert 200 == post(daemon)[0]
    assert 1 == configured.successful()


def test_sighup_reloads(configured: Configured) -> None:
    """As POST does."""
    configured.write("sources: [{name: a, path: a.log}, {name: b, path: b.log}]")
    configured.daemon.process.send_signal(signal.SIGHUP)
    configured.daemon.wait_value(640, POOL, source="b")


def test_what_takes_a_restart_is_said(configured: Configured) -> None:
    """The address is bound, and the state file locked."""
    configured.write("web: {telemetry_path: /m}\nstate_file: other.json\nsources: [{name: a, path: a.log}]")
    assert 200 == post(configured.daemon)[0]
    assert "web: a change takes a restart" in configured.daemon.errors.read_text()


def test_reload_by_http_is_off_unless_it_is_asked_for(run: Start, tmp_path: Path) -> None:
    """Whoever reaches the port may read, and no more. SIGHUP stays."""
    (tmp_path / "a.log").write_text(BOOT)
    daemon = run("--log", str(tmp_path / "a.log")).wait_ready()
    assert 403 == post(daemon)[0]


def test_reload_takes_only_post(configured: Configured) -> None:
    """A link that somebody opens must not change anything."""
    assert 405 == configured.daemon.get("/-/reload")[0]


# -- a node ------------------------------------------------------------------------------------------------------------


class Node:
    """/var/log/pods of a node, and a daemon that follows it."""

    def __init__(self, run: Start, folder: Path) -> None:
        self.pods = folder / "pods"
        self.pods.mkdir()
        self._run, self._state = run, folder / "state.json"
        self.container("decode-0").joinpath("0.log").write_text(self.boot())
        self.start()

    def start(self) -> None:
        """Start the daemon."""
        self.daemon = self._run("--log", f"{self.pods}/*/*/*.log", "--state-file", str(self._state)).wait_ready()

    def container(self, pod: str, uid: str = "0f3a2b1c-1111-2222-3333-444455556666") -> Path:
        """The directory of a pod's engine container."""
        path = self.pods / f"serving_{pod}_{uid}" / "engine"
        path.mkdir(parents=True, exist_ok=True)
        return path

    @staticmethod
    def boot(at: str = "03:12:0") -> str:
        """What an engine prints, as containerd keeps it."""
        return "".join(f"2026-07-14T{at}{number}.123456789Z stdout F {each}\n" for number, each in enumerate(BOOT.splitlines()))


@pytest.fixture
def node(run: Start, tmp_path: Path) -> Node:
    """A node with one pod."""
    return Node(run, tmp_path)


def test_each_container_is_a_source_with_its_labels(node: Node) -> None:
    """Namespace, pod and container come from the path."""
    assert 640 == node.daemon.value(POOL, source="serving_decode-0_engine", namespace="serving", pod="decode-0", container="engine")


def test_a_restarted_container_is_a_new_process_of_the_same_source(node: Node) -> None:
    """Kubelet writes 1.log beside 0.log."""
    node.container("decode-0").joinpath("1.log").write_text(node.boot("03:20:0"))
    node.daemon.wait_value(2, STARTS, source="serving_decode-0_engine")
    assert 1 == node.daemon.value("inferlog_engine_ready")
    assert 8 == node.daemon.value("inferlog_log_lines_total")


def test_a_new_pod_is_found_and_is_there_as_a_whole(node: Node) -> None:
    """Its history is read before it is shown; one that is gone keeps its counters for a while."""
    node.container("prefill-0").joinpath("0.log").write_text(node.boot())
    node.daemon.wait_value(640, POOL, pod="prefill-0")
    assert 4 == node.daemon.value("inferlog_log_lines_total", pod="prefill-0")

    shutil.rmtree(node.container("prefill-0").parent)
    node.daemon.wait_value(0, "inferlog_source_up", pod="prefill-0")
    assert 1 == node.daemon.value(STARTS, pod="prefill-0")


def test_ten_thousand_files_under_a_glob(run: Start, tmp_path: Path) -> None:
    """Few are open at a time, each line counts once, and a lone line is still seen."""
    logs = tmp_path / "logs"
    logs.mkdir()
    for number in range(10_000):
        (logs / f"worker-{number}.log").write_text(
            f"{line('Recovered from KV load failure: 1 request(s) rescheduled (7 tokens affected).')}\n"
        )
    daemon = run("--log", f"{logs}/*.log", "--name", "fleet")
    wait_for(lambda: daemon.get("/-/ready")[0] == 200, "the history of all files", 50)
    assert 10_000 == daemon.value("inferlog_kv_recomputed_requests_total", source="fleet")
    assert 1000 > len(list(Path(f"/proc/{daemon.process.pid}/fd").iterdir()))
    with (logs / "worker-777.log").open("a") as log:
        log.write(f"{line('Recovered from KV load failure: 5 request(s) rescheduled (7 tokens affected).')}\n")
    daemon.wait_value(10_005, "inferlog_kv_recomputed_requests_total", source="fleet")


def test_a_node_goes_on_after_a_kill(node: Node) -> None:
    """Also for what changed meanwhile."""
    wait_for(lambda: node.daemon.value(STARTS) == 1, "the pod")
    node.daemon.kill()
    node.container("decode-0").joinpath("1.log").write_text(node.boot("03:20:0"))
    node.start()
    node.daemon.wait_value(2, STARTS, pod="decode-0")
    assert 8 == node.daemon.value("inferlog_log_lines_total")
