"""Kubelet gives each container of a pod a file of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import READY, core, line, logo, stats
from .test_followed import Node, append


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A daemon that the test starts and kills."""
    found = Node(tmp_path)
    yield found
    found.kill()


def test_a_restarted_container_is_a_new_process_whatever_its_log_says(node: Node, tmp_path: Path) -> None:
    """Kubelet begins `1.log`; at log level WARNING no start line is in it, and its readiness is its own."""
    pod = tmp_path / "pods" / "llm_chat-0_0f9a3c1e-6a3b-4b7e-9a3e-0123456789ab" / "vllm"
    pod.mkdir(parents=True)
    (pod / "0.log").write_text(cri(logo(), core(), READY, stats(at="03:16:00")))
    config = f"sources: [{{path: '{tmp_path}/pods/*/vllm/*.log'}}]"
    daemon = node.start(config)
    daemon._read_all()
    (engine,) = (each.source.engine for each in daemon.sources.values())
    assert ("serving", True) == (engine.life.state, engine.life.ready_observed)

    (pod / "1.log").write_text(cri("Traceback (most recent call last):", "INFO:     Started server process [1]", at="05:00:00"))
    daemon._discover()
    daemon._read_all()
    assert "serving" == engine.life.state  # not a word of it is known yet

    append(
        pod / "1.log",
        cri(line("Using max model len 4096", at="05:00:01"), line("GPU KV cache size: 640 tokens", at="05:00:01"), at="05:00:01"),
    )
    daemon._read_all()
    assert ("unknown", None) == (engine.life.state, engine.life.ready)

    daemon._save()
    node.kill()
    daemon = node.start(config)
    append(pod / "1.log", cri(READY, at="05:01:00"))
    daemon._read_all()
    (engine,) = (each.source.engine for each in daemon.sources.values())
    assert ("serving", True) == (engine.life.state, engine.life.ready_observed)


def cri(*texts: str, at: str = "03:16:00") -> str:
    """Lines as containerd writes them."""
    return "".join(f"2026-07-14T{at}.000000000Z stdout F {text}\n" for text in texts)
