"""Kernels that appear in JIT caches: real directories, real events, and what is counted of them."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from exporter.evidence import cache_watch
from exporter.evidence.cache_layout import DEFAULT_DIRECTORIES, artefact, directories, is_of_interest
from exporter.evidence.cache_watch import CacheWatch
from exporter.evidence.sightings import CacheSighting

from .conftest import READY, Reading, Running, core, line, logo, wait_for

TRITON = "KHZ4PLPQ4D6XYBXOQAQOAQXFPUJ5JTQ2QNX3TVXBTZ7QHMZ5MKEA"
SHA = "3f" * 32
FX = "f" + "a2" * 25 + "b"


@pytest.mark.parametrize(
    ("path", "backend", "kernel"),
    [
        (".deep_gemm/cache/kernel.sm90_fp8_gemm_1d2d.0123456789abcdef", "deepgemm", "sm90_fp8_gemm_1d2d"),
        (".cache/vllm/deep_gemm/cache/kernel.smxx_layout.00ff00ff", "deepgemm", "smxx_layout"),
        (".cache/flashinfer/0.6.14/90a/cached_ops/batch_decode_x/batch_decode_x.so", "flashinfer", "batch_decode_x"),
        (f".triton/cache/{TRITON}/_fwd_kernel.cubin", "triton", "_fwd_kernel"),
        (f".triton/cache/{TRITON}/_fwd_kernel.hsaco", "triton", "_fwd_kernel"),
        (f"torchinductor_root/triton/0/{TRITON}/triton_red_fused_0.cubin", "triton", "triton_red_fused_0"),
        (f".tilelang/cache/0.1.9/kernels/{SHA}", "tilelang", SHA),
        (f"torchinductor_root/fxgraph/a2/{FX}", "inductor", FX),
        (".cache/tvm-ffi/sgl_kernel_jit_norm_0a1b/sgl_kernel_jit_norm_0a1b.so", "other", "sgl_kernel_jit_norm_0a1b"),
        (".cache/sglang/jit/norm_0a1b/norm.so", "other", "norm"),
    ],
)
def test_a_kernel_is_known_by_its_place(path: str, backend: str, kernel: str) -> None:
    """As each library lays out its cache."""
    assert (backend, kernel) == artefact(f"/root/{path}")


@pytest.mark.parametrize(
    "path",
    [
        ".deep_gemm/cache/tmp/0123",
        ".deep_gemm/cache/kernel.x",
        ".cache/flashinfer/0.6.14/90a/cached_ops/batch_decode_x/batch_decode_x.o",
        ".cache/flashinfer/0.6.14/90a/cached_ops/batch_decode_x/other.so",
        f".cache/flashinfer/cubins/{SHA}/fmha/x.cubin",
        f".triton/cache/{TRITON}/_fwd_kernel.ptx",
        f".triton/cache/{TRITON}/__triton_launcher.so",
        ".triton/cache/x/y.cubin",
        f".tilelang/cache/0.1.9/kernels/{SHA}/kernel.cu",
        ".cache/vllm/torch_compile_cache/0a/rank_0_0/backbone/computation_graph.py",
        ".cache/huggingface/hub/models--x/blobs/" + SHA,
    ],
)
def test_other_files_are_no_kernels(path: str) -> None:
    """Sources, intermediate files, launchers, downloads."""
    assert artefact(f"/root/{path}") is None


def test_what_is_being_written_is_of_no_interest() -> None:
    """It is renamed when it is whole."""
    assert not any(
        map(is_of_interest, (".staging-1f", "tmp", "tmp.pid_7_1a", ".tmpx", "x.tmp", "x.lock", "locks", "cubins", "flashinfer_jit.log"))
    )
    assert all(map(is_of_interest, ("kernel.x.0f", ".cache", TRITON, "norm.so")))


def test_the_usual_directories_are_below_a_home() -> None:
    """And others can be given."""
    assert [*(f"/root/{name}" for name in DEFAULT_DIRECTORIES), "/tmp/torchinductor_root"] == directories(
        "/root", ["/tmp/torchinductor_root/"]
    )
    assert [] == directories(None, [])


# -- watching ----------------------------------------------------------------------------------------------------------


class Cache:
    """A cache directory that is watched, by this thread."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.found: list[CacheSighting] = []
        self.wakes = 0
        self.watch = CacheWatch([str(root)], self.found.append, self._wake)

    def _wake(self) -> None:
        self.wakes += 1

    def make(self, path: str, text: bytes = b"x") -> Path:
        """A file, with its directories."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text)
        return file

    def rename_in(self, path: str) -> None:
        """A directory that is whole when it appears."""
        made = self.make("tmp/0123/kernel.cubin").parent
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        made.rename(target)

    @property
    def kernels(self) -> list[str]:
        """What was seen so far."""
        return sorted(each.kernel for each in self.found)

    def wait(self, *kernels: str) -> None:
        """Look until just these were seen."""
        expected = sorted(kernels)

        def seen() -> bool:
            self.watch.look()
            return self.kernels == expected

        wait_for(seen, f"{expected}; seen {self.kernels}")


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Cache]:
    """An empty cache that is there."""
    made = Cache(tmp_path / "cache")
    made.root.mkdir()
    made.watch.look()
    yield made
    made.watch.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for ten seconds."""
    monkeypatch.setattr(cache_watch, "LOOK_SECONDS", 0.05)


def test_what_is_there_at_first_is_no_compile(tmp_path: Path) -> None:
    """Of whatever library."""
    cache = Cache(tmp_path / "root")
    cache.make(f".triton/cache/{TRITON}/a.cubin")
    cache.rename_in("cache/kernel.a.00ff00ff")
    cache.watch.look()
    cache.watch.look()
    cache.rename_in("cache/kernel.b.00ff00ff")
    cache.wait("b")
    cache.watch.close()


def test_a_directory_that_is_renamed_into_place(cache: Cache) -> None:
    """DeepGEMM; also in a directory that was made a moment before."""
    cache.rename_in("cache/kernel.a.00ff00ff")
    cache.rename_in("cache/kernel.b.00ff00ff")
    cache.wait("a", "b")
    cache.rename_in("cache/kernel.c.00ff00ff")
    cache.wait("a", "b", "c")


def test_files_deep_below(cache: Cache) -> None:
    """FlashInfer; directories appear while they are being watched."""
    for op in ("a", "b"):
        for name in (f"{op}.o", "build.ninja", f"{op}.so"):
            cache.make(f"0.6.14/90a/cached_ops/{op}/{name}")
    cache.wait("a", "b")
    (cache.root / "0.6.14/90a/cached_ops/a/a.so").unlink()
    cache.make("0.6.14/90a/cached_ops/c/c.so")
    cache.wait("a", "b", "c")


def test_a_kernel_in_a_directory_of_its_own(cache: Cache) -> None:
    """Triton renames each file into it, some while after it made it; when the kernel is there nothing is watched any more."""
    home = cache.root / "cache" / TRITON
    home.mkdir(parents=True)
    wait_for(lambda: (cache.watch.look(), str(home) in cache.watch._paths)[1], "the watch")
    for name in ("a.ttir", "a.ptx", "a.cubin", "a.json"):
        part = cache.make(f"cache/{TRITON}/tmp.pid_7_1a/{name}")
        part.rename(home / name)
    cache.wait("a")
    assert str(home) not in cache.watch._paths


def test_the_same_kernel_twice_in_a_moment_is_one(cache: Cache) -> None:
    """Eight ranks race, and each renames its own over the others'."""
    for _ in range(8):
        cache.make("tvm-ffi/norm_0a/tmpx", b"x").rename(cache.root / "tvm-ffi/norm_0a/norm.so")
        cache.watch.look()
    cache.wait("norm")


def test_thousands_of_files_are_looked_at_together(cache: Cache) -> None:
    """Each kernel counts once; what is no kernel costs no look of its own."""
    for number in range(3000):
        cache.make(f"cache/junk/{number}.json", b"")
    for number in range(300):
        cache.rename_in(f"cache/kernel.k{number}.00ff00ff")
    cache.wait(*(f"k{number}" for number in range(300)))
    assert 10_000 >= len(cache.watch._pending)


@pytest.mark.usefixtures("impatient")
def test_too_many_at_once_are_found_by_their_times(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    """What did not fit is looked for."""
    monkeypatch.setattr(cache_watch, "MOST_PENDING", 3)
    for number in range(50):
        cache.rename_in(f"kernel.k{number}.00ff00ff")
    cache.wait(*(f"k{number}" for number in range(50)))


@pytest.mark.usefixtures("impatient")
def test_lost_events_are_made_up_for(cache: Cache) -> None:
    """The kernel's queue overflows."""
    (cache.root / "cache").mkdir()
    wait_for(lambda: (cache.watch.look(), str(cache.root / "cache") in cache.watch._paths)[1], "the watch")
    cache.watch._remove(str(cache.root / "cache"))
    cache.rename_in("cache/kernel.a.00ff00ff")
    cache.watch.on_queue_overflow()
    cache.wait("a")


@pytest.mark.usefixtures("impatient")
def test_where_no_more_can_be_watched_the_caches_are_gone_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or nothing at all."""
    monkeypatch.setattr(cache_watch, "MOST_WATCHES", 1)
    few = Cache(tmp_path / "few")
    (few.root / "cache").mkdir(parents=True)
    few.watch.look()

    def fail() -> None:
        raise OSError(24, "too many")

    monkeypatch.setattr(cache_watch, "appearances", fail)
    none = Cache(tmp_path / "none")
    (none.root / "cache").mkdir(parents=True)
    none.rename_in("cache/kernel.old.00ff00ff")
    os.utime(none.root / "cache")
    none.watch.look()
    for each in (few, none):
        each.rename_in("cache/kernel.a.00ff00ff")
        wait_for(lambda each=each: (each.watch.look(), "a" in each.kernels)[1], "the kernel")
        each.watch.close()


@pytest.mark.usefixtures("impatient")
def test_a_cache_that_comes_later_and_goes(tmp_path: Path) -> None:
    """What is in it came while we looked."""
    cache = Cache(tmp_path / "cache")
    cache.watch.look()
    cache.make("cached_ops/a/a.so")
    cache.wait("a")
    shutil.rmtree(cache.root)
    wait_for(lambda: (cache.watch.look(), not cache.watch._paths)[1], "the watches to end")
    cache.make("cached_ops/b/b.so")
    cache.wait("a", "b")
    cache.watch.close()


def test_links_are_not_followed(cache: Cache, tmp_path: Path) -> None:
    """They may lead anywhere, and in circles."""
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "cached_ops/a").mkdir(parents=True)
    (elsewhere / "cached_ops/a/a.so").touch()
    (cache.root / "link").symlink_to(elsewhere)
    (cache.root / "circle").symlink_to(cache.root)
    cache.make("cached_ops/b/b.so")
    cache.wait("b")


def test_names_that_are_no_text(cache: Cache) -> None:
    """A name is bytes."""
    os.mkdir(os.fsencode(cache.root) + b"/kernel.\xff.00ff00ff")
    cache.make("cached_ops/b/b.so")
    cache.wait("b")


# -- counting ----------------------------------------------------------------------------------------------------------

NOW = 1_800_000_000.0


def seen(reading: Reading, backend: str, at: float = NOW, seen_by: str = "cache") -> Reading:
    """A kernel appeared."""
    reading.source.witness([CacheSighting(backend, "k", at)], [seen_by])
    return reading


def test_libraries_that_print_nothing_are_events() -> None:
    """The others are sightings only: their lines count."""
    reading = Reading().feed(logo(), core(), READY)
    for backend in ("deepgemm", "flashinfer", "triton", "tilelang", "inductor", "other"):
        seen(reading, backend)

    assert {"deepgemm", "flashinfer", "other"} == {labels[0] for labels, value in reading.series("jit_events_total").items() if value}
    assert 6 == reading.value("jit_observed_total", "cache", "serving")
    assert 0 == reading.value("jit_observed_total", "cache", "startup")
    assert NOW == reading.value("jit_last_event_timestamp_seconds", "deepgemm", "serving")


def test_the_phase_is_that_of_the_kernel() -> None:
    """It may be told after the ready line, of which the log's clock tells when it was."""
    reading = Reading().feed(logo(), core(), line("Starting vLLM API server 0 on http://0.0.0.0:8000"))
    seen(reading, "deepgemm", 0.0)
    assert 1 == reading.value("jit_events_total", "deepgemm", "compile", "startup")
    reading.feed(READY)
    ready = reading.source.clock.epoch(reading.source.engine.life.ready)
    assert ready
    seen(reading, "deepgemm", ready - 5)
    seen(reading, "deepgemm", ready + 5)

    assert 2 == reading.value("jit_events_total", "deepgemm", "compile", "startup")
    assert 1 == reading.value("jit_events_total", "deepgemm", "compile", "serving")


def test_a_burst_of_kernels_that_nobody_told_of_is_an_incident() -> None:
    """And the kernels have their names, as those of a line."""
    reading = Reading().feed(logo(), core(), READY)
    ready = reading.source.clock.epoch(reading.source.engine.life.ready)
    assert ready
    for number, after in enumerate((1000, 1005, 1200)):
        reading.source.witness([CacheSighting("deepgemm", f"k{number}", ready + after)], ["cache"])
    seen(reading, "triton", ready + 2000)

    assert 2 == reading.value("jit_incidents_total", "service")
    assert ready + 1200 == reading.value("jit_incident_timestamp_seconds", "service")
    assert ["k0", "k1", "k2"] == [name for _, _, name in reading.source.engine.jit.incidents.kernels]


def test_a_silent_library_that_spoke_up_is_not_counted_twice() -> None:
    """SGLang tells of DeepGEMM's sessions, FlashInfer of its autotuner."""
    text = "2026-07-14 03:15:00,000 - INFO - autotuner.py:457 - flashinfer.jit: [Autotuner]: Autotuning process starts ..."
    end = text.replace("03:15:00", "03:15:09").replace("starts ...", "ends")
    reading = Reading().feed(logo(), core(), READY, text, end)
    told = reading.value("jit_last_event_timestamp_seconds", "flashinfer", "serving")
    assert told
    before = sum(reading.series("jit_events_total").values())
    seen(reading, "flashinfer", told + 30)
    assert before == sum(reading.series("jit_events_total").values())
    seen(reading, "flashinfer", told + 90)

    assert before + 1 == sum(reading.series("jit_events_total").values())
    assert told + 90 == reading.value("jit_last_event_timestamp_seconds", "flashinfer", "serving")


def test_of_several_engines_in_one_log_none_is_the_one() -> None:
    """A cache does not say whose it is."""
    reading = Reading()
    for name in ("decode", "prefill"):
        reading.feed(*(f"{name}  | {each}" for each in (logo(), core(), READY)))
    seen(reading, "deepgemm")

    assert not sum(reading.series("jit_events_total").values())


# -- the daemon --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_kernel_after_ready_is_counted_once_whatever_happens(run: Callable[..., Running], tmp_path: Path) -> None:
    """It is saved when it is counted: a kill must not take it away, and the next one finds it there at first."""
    (tmp_path / "a.log").write_text(f"{logo()}\n{core()}\n{READY}\n")
    (tmp_path / "inferlog.yaml").write_text("sources: [{name: a, path: a.log, jit_cache_home: home}]")
    cache = tmp_path / "home/.cache/flashinfer"
    (cache / "cached_ops/old").mkdir(parents=True)
    (cache / "cached_ops/old/old.so").touch()
    arguments = ("--config", str(tmp_path / "inferlog.yaml"), "--state-file", str(tmp_path / "state.json"))
    daemon = run(*arguments).wait_ready()
    assert 0 == daemon.value("inferlog_jit_observed_total", seen_by="cache", phase="serving")

    def count() -> float | None:
        return daemon.value("inferlog_jit_events_total", backend="flashinfer", phase="serving")

    (cache / "cached_ops/new").mkdir()
    (cache / "cached_ops/new/new.so").touch()
    wait_for(lambda: '["flashinfer", "compile", "serving"], 1.0]' in (tmp_path / "state.json").read_text(), "the state without a scrape")
    assert 1 == count()
    daemon.kill()
    daemon = run(*arguments).wait_ready()
    assert 1 == count()
    (cache / "cached_ops/newer").mkdir()
    (cache / "cached_ops/newer/newer.so").touch()
    wait_for(lambda: count() == 2, "the next kernel")
    assert 2 == daemon.value("inferlog_jit_observed_total", seen_by="cache")
