"""What is followed, on real directories: globs, and pods as kubelet lays them out."""

import os
import shutil
import socket
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from exporter.config import SourceConfig, from_flags
from exporter.discovery import Target, discover, watch_roots
from exporter.tail import auto

UID = "11111111-2222-3333-4444-55555555555"
ID = "ab" * 32


def sources(*paths: str | Path, **settings: object) -> Sequence[SourceConfig]:
    """One source for each path, as by --log."""
    return from_flags(None, logs=[str(path) for path in paths], source_defaults=settings).sources  # type: ignore[arg-type]


def found(*paths: str | Path, **settings: object) -> list[Target]:
    return discover(sources(*paths, **settings))


def write(path: Path, age: float = 0.0) -> Path:
    """A log that was written some seconds ago."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x\n")
    os.utime(path, (time.time() - age,) * 2)
    return path


class Node:
    """The log directories of a node; containers/ has absolute links, as kubelet makes them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.links = root / "containers"
        self.links.mkdir(parents=True)
        self.pods = f"{root}/pods/*/*/*.log"
        self.containers = f"{root}/containers/*.log"

    def log(self, pod: str = "decode-0", number: int = 0, *, uid: int = 0, age: float = 0, container: str = "vllm") -> str:
        return str(write(self.root / "pods" / f"llm_{pod}_{UID}{uid}" / container / f"{number}.log", age))

    def link(self, target: str, pod: str = "decode-0", *, id_: str = ID, container: str = "vllm") -> str:
        link = self.links / f"{pod}_llm_{container}-{id_}.log"
        link.symlink_to(target)
        return str(link)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path / "var/log")


class TestGlob:
    def test_is_one_source_with_its_files(self, tmp_path: Path) -> None:
        """All files of a glob are one source, by name; directories and what is no file are left out."""
        for name in ("b.log", "a.log", "c.txt"):
            write(tmp_path / name)
        (tmp_path / "d.log").mkdir()
        os.mkfifo(tmp_path / "f.log")
        with socket.socket(socket.AF_UNIX) as unix:
            unix.bind(str(tmp_path / "s.log"))

        (target,) = found(tmp_path / "*.log", name="engine")

        assert (target.name, target.labels) == ("engine", {})
        assert target.paths == (f"{tmp_path}/a.log", f"{tmp_path}/b.log")

    def test_may_lead_anywhere_unless_there_are_roots(self, tmp_path: Path) -> None:
        """A log of one's own may be a link."""
        write(tmp_path / "a.log")
        assert [()] == [target.roots for target in found(tmp_path / "*.log")]
        assert [(str(tmp_path),)] == [target.roots for target in discover(sources(tmp_path / "*.log"), [str(tmp_path)])]

    def test_is_expanded_at_each_call(self, tmp_path: Path) -> None:
        """Files come and go; without any there is no source yet."""
        pattern = sources(tmp_path / "later" / "*.log")
        assert discover(pattern) == []
        log = write(tmp_path / "later" / "a.log")
        assert [target.paths for target in discover(pattern)] == [(str(log),)]
        log.unlink()
        assert discover(pattern) == []

    def test_a_plain_path_stays(self, tmp_path: Path) -> None:
        """A path stands for itself, there or not, also with the characters of a glob; so does standard input."""
        odd = write(tmp_path / "odd[1].log")
        targets = found(odd, tmp_path / "none.log", "-", tmp_path / "x.log.1")
        assert [target.paths for target in targets] == [(str(odd),), (f"{tmp_path}/none.log",), ("-",), (f"{tmp_path}/x.log.1",)]

    @pytest.mark.parametrize("suffix", [".1", "-20260731", ".20260731-120000", ".2026-07-31T12:00:00Z", ".1.gz", ".gz", ".zst", ".tmp"])
    @pytest.mark.parametrize("pattern", ["*", "x*", "x.log*", "x.log?*"])
    @pytest.mark.parametrize("log_is_there", [True, False])
    def test_leaves_rotated_files_to_their_log(self, tmp_path: Path, suffix: str, pattern: str, *, log_is_there: bool) -> None:
        """A generation is no log of its own, also in the moment in which the log is not there."""
        write(tmp_path / f"x.log{suffix}")
        if log_is_there:
            write(tmp_path / "x.log")
        paths = {path for target in found(tmp_path / pattern) for path in target.paths}
        assert paths <= {f"{tmp_path}/x.log"}
        assert bool(paths) is (log_is_there and "?" not in pattern)

    def test_takes_numbered_names_for_logs(self, tmp_path: Path) -> None:
        """A number may be the engine's and not the rotation's."""
        names = ["engine-0", "engine-1", "rank.0", "rank.1", "vllm-0.log", "worker-1-2.out"]
        for name in names:
            write(tmp_path / name)
        targets = found(*(tmp_path / pattern for pattern in ("engine-*", "rank.*", "vllm-*", "worker-*")))
        assert [os.path.basename(path) for target in targets for path in target.paths] == names
        assert "engine-0" in {os.path.basename(path) for path in found(tmp_path / "*")[0].paths}
        write(tmp_path / "engine")
        assert [target.name for target in found(tmp_path / "engine-*")] == []

    def test_skips_hostile_names(self, tmp_path: Path) -> None:
        """Control characters are skipped; bytes that are no UTF-8 are a name as any."""
        write(tmp_path / "a\nb.log")
        write(tmp_path / "a\x1b[0m.log")
        odd = write(tmp_path / "a\udcff.log")
        assert [target.paths for target in found(tmp_path / "*.log")] == [(str(odd),)]

    def test_copes_with_loops_and_what_is_closed(self, tmp_path: Path) -> None:
        """A link to itself is no log, one to nothing waits; a closed directory hides its files and no others."""
        (tmp_path / "loop.log").symlink_to("loop.log")
        (tmp_path / "d").symlink_to(".")
        (tmp_path / "waits.log").symlink_to("nowhere")
        (tmp_path / "closed").mkdir(mode=0)
        log = write(tmp_path / "open" / "a.log")
        assert [target.paths for target in found(tmp_path / "*.log", tmp_path / "[co]*" / "*.log")] == [
            (f"{tmp_path}/waits.log",),
            (str(log),),
        ]

    def test_copes_with_directories_that_go_while_they_are_listed(self, node: Node) -> None:
        """What is gone is not found, and nothing else happens."""
        logs = [Path(node.log(f"pod-{number}")) for number in range(200)]
        pattern = sources(node.pods)

        def remove() -> None:
            for log in logs:
                shutil.rmtree(log.parent.parent)

        remover = threading.Thread(target=remove)
        remover.start()
        while discover(pattern) and watch_roots(pattern):
            pass
        remover.join()


class TestOnce:
    def test_a_file_reached_twice_is_followed_once(self, tmp_path: Path) -> None:
        """By what stands first."""
        log = write(tmp_path / "a.log")
        (tmp_path / "link.log").symlink_to(log)
        assert [(target.name, target.paths) for target in found(tmp_path / "a*.log", tmp_path / "*.log")] == [("a", (str(log),))]

    def test_a_path_comes_before_a_glob(self, tmp_path: Path) -> None:
        """Who names a log means it, whatever else a glob takes."""
        log, other = write(tmp_path / "b.log"), write(tmp_path / "a.log")
        targets = found(tmp_path / "*.log", log)
        assert [target.paths for target in targets] == [(str(other),), (str(log),)]


class TestPods:
    def test_are_bounded_by_the_log_directories(self, node: Node) -> None:
        """Kubelet's two, docker's and the configured ones, links resolved; by whichever glob they were found."""
        link = node.root.parent / "mounted"
        link.symlink_to(node.root)
        node.link(node.log())
        for pattern in (node.pods, node.containers, f"{link}/pods/*/*/*.log"):
            (target,) = discover(sources(pattern), ["/mnt/docker"])
            assert set(target.roots) == {f"{node.root}/pods", f"{node.root}/containers", "/var/lib/docker/containers", "/mnt/docker"}

    def test_each_container_is_a_source(self, node: Node) -> None:
        """Named and labelled by namespace, pod and container; never by uid or number."""
        paths = [node.log(), node.log(container="router"), node.log("prefill.v1-x")]
        write(node.root / "pods" / "readme.log")

        targets = {target.name: target for target in found(node.pods)}

        assert targets.keys() == {"llm_decode-0_vllm", "llm_decode-0_router", "llm_prefill.v1-x_vllm"}
        decode = targets["llm_decode-0_vllm"]
        assert decode.labels == {"namespace": "llm", "pod": "decode-0", "container": "vllm"}
        assert sorted(path for target in targets.values() for path in target.paths) == sorted(paths)

    def test_restarts_and_recreated_pods_are_one_source_by_age(self, node: Node) -> None:
        """Numbers count within a pod's directory, of the pods the last written is the newest."""
        new = [node.log(number=0, uid=1, age=10)]
        old = [node.log(number=number, uid=2, age=100 - number) for number in (9, 10)]
        (target,) = found(node.pods)
        assert target.paths == (*old, *new)

    def test_a_name_is_a_prefix_and_a_configured_label_wins(self, node: Node) -> None:
        """The prefix keeps two clusters apart."""
        node.log()
        source = sources(node.pods, name="blue")[0].model_copy(update={"labels": {"pod": "mine", "team": "a"}})
        (target,) = discover([source])
        assert target.name == "blue_llm_decode-0_vllm"
        assert target.labels == {"namespace": "llm", "pod": "mine", "container": "vllm", "team": "a"}
        assert target.source is source

    def test_a_long_name_ends_in_a_hash_that_stays(self, node: Node) -> None:
        """At most 63 characters, different for each container, and the same whatever else there is."""
        pods = ["p" * 80 + end for end in "ab"]
        node.log(pods[0])
        (alone,) = found(node.pods)
        node.log(pods[1])
        names = [target.name for target in found(node.pods)]
        assert len(set(names)) == 2
        assert alone.name in names
        assert max(map(len, names)) == 63

    def test_a_name_that_the_configuration_has_gets_a_hash(self, node: Node, tmp_path: Path) -> None:
        """A source of another kind may be called as a container would be."""
        node.log()
        other = sources(tmp_path / "x.log", name="llm_decode-0_vllm")
        names = [target.name for target in discover([*other, *sources(node.pods)])]
        assert names[0] == "llm_decode-0_vllm"
        assert names[1].startswith("llm_decode-0_vllm-")

    def test_a_named_path_is_what_the_user_calls_it(self, node: Node) -> None:
        """A plain path of one container has its labels; without a name it is called as under a glob."""
        path = node.log()
        (target,) = found(path, name="mine")
        assert (target.name, target.labels["pod"], target.paths) == ("mine", "decode-0", (path,))
        assert found(path) == [Target("llm_decode-0_vllm", target.labels, (path,), *sources(path), target.roots)]

    def test_knows_the_layout_by_its_shape(self, tmp_path: Path) -> None:
        """Wherever it is mounted, and only with a uid: other directories have underscores too."""
        static = write(tmp_path / "x" / f"kube-system_etcd-node_{'0' * 32}" / "etcd" / "3.log")
        write(tmp_path / "x" / "a_b_20260731" / "worker" / "0.log")
        assert [(target.name, target.paths) for target in found(tmp_path / "*" / "*" / "*" / "*.log", name="n")] == [
            ("n", (f"{tmp_path}/x/a_b_20260731/worker/0.log",)),
            ("n_kube-system_etcd-node_etcd", (str(static),)),
        ]


class TestContainers:
    def test_links_are_followed_as_the_files_of_the_pods(self, node: Node) -> None:
        """Both layouts, in either order, are the same sources with the same paths."""
        old, new = node.log(number=0, age=1), node.log(number=1)
        node.link(new, id_="0" * 64)
        node.link(old, id_="f" * 64)
        expected = [("llm_decode-0_vllm", (old, new))]
        for patterns in ([node.containers], [node.pods], [node.containers, node.pods], [node.pods, node.containers]):
            assert [(target.name, target.paths) for target in found(*patterns)] == expected

    def test_a_root_that_is_mounted_elsewhere(self, node: Node) -> None:
        """The links name the node's own /var/log, which is not ours; the pods lie beside them."""
        log = node.log()
        node.link(log.replace(str(node.root), "/no/var/log"))
        assert [target.paths for target in found(node.containers)] == [(log,)]

    def test_a_link_to_what_is_not_mounted_waits(self, node: Node) -> None:
        """Better seen as down than not at all."""
        link = node.link("/no/such.log", "a.b-c")
        (target,) = found(node.containers)
        assert (target.name, target.paths) == ("llm_a.b-c_vllm", (link,))

    def test_docker_keeps_the_file_elsewhere(self, node: Node, tmp_path: Path) -> None:
        """pods/ may hold links as well."""
        log = Path(node.log())
        log.rename(tmp_path / "x-json.log")
        log.symlink_to(tmp_path / "x-json.log")
        node.link(str(log))
        assert [target.paths for target in found(node.containers, node.pods)] == [(str(log),)]


class TestWatchRoots:
    def test_are_the_directories_in_which_something_may_come(self, node: Node) -> None:
        """The root, each pod and each container; a plain path needs none."""
        node.log()
        pod = node.root / "pods" / f"llm_decode-0_{UID}0"
        roots = watch_roots(sources(node.pods, node.containers, "/none/x*/*.log", "/none/plain.log", "*.log"))
        expected = {node.root / "pods", pod, pod / "vllm", node.links, "/none", "."}
        assert roots == {str(path) for path in expected}


def test_new_pods_are_seen_by_events_alone(node: Node) -> None:
    """No pod slips through between the look at a directory and the watch on it, however fast kubelet is."""
    everything = sources(node.pods)
    (node.root / "pods").mkdir()
    watcher = auto([], watch_roots(everything))
    writer = threading.Thread(target=lambda: [node.log(f"pod-{number}") for number in range(100)])
    writer.start()
    targets: list[Target] = []
    deadline = time.monotonic() + 20
    while len(targets) < 100 and time.monotonic() < deadline:
        if watcher.wait(1) and watcher.new_entries():
            targets = discover(everything)
            watcher.watch([path for target in targets for path in target.paths], watch_roots(everything))
    writer.join()
    watcher.stop()
    assert len(targets) == 100


def test_ten_thousand_files_take_well_under_a_second(tmp_path: Path) -> None:
    """In CPU time, which hardly depends on what else runs."""
    node = Node(tmp_path)
    for number in range(1000):
        container = Path(node.log(f"pod-{number}")).parent
        for restart in range(1, 10):
            (container / f"{restart}.log").touch()
    everything = sources(node.pods)
    begin = time.process_time()
    targets = discover(everything)
    assert time.process_time() - begin < 1
    assert (len(targets), len(targets[0].paths)) == (1000, 10)
    shutil.rmtree(tmp_path)  # else a later run of pytest has it to do
