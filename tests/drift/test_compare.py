"""`inferlog drift`: literals that live, are gone, or have another wording."""

import pytest
from click.testing import CliRunner

from exporter.cli import main

STATS = """
class LoggingStatLogger:
    def log(self):
        parts = [
            "Avg prompt throughput: %.1f tokens/s",
            "Avg generation throughput: %.1f tokens/s",
            "Running: %d reqs",
            "Waiting: %d reqs",
            "GPU KV cache usage: %.1f%%",
        ]
        logger.info("Engine %03d: " + ", ".join(parts), *args)
"""
SIZE = 'logger.info_once("%s KV cache size: %s tokens, Maximum concurrency for %s tokens per request: %.2fx", a, b, c, d)\n'


def run(*arguments):
    return CliRunner().invoke(main, ["drift", *map(str, arguments)])


def state_of(output, rule):
    """What the report says of a rule, and the lines below it."""
    lines = output.splitlines()
    at = next((n for n, line in enumerate(lines) if f" {rule} (" in line), None)
    if at is None:
        return "", ""
    below = []
    for line in lines[at + 1 :]:
        if not line.startswith("     "):
            break
        below.append(line.strip())
    return lines[at].split()[0], "\n".join(below)


@pytest.mark.parametrize("kind", ["wheel", "archive", "tree"])
def test_a_release_is_read_where_it_lies(kind, wheel, archive, tmp_path):
    """Wheels and archives without unpacking them."""
    files = {"vllm/v1/metrics/loggers.py": STATS, "vllm/v1/core/kv_cache_utils.py": SIZE}
    if kind == "tree":
        path = tmp_path / "vllm-0.33.0"
        for name, text in files.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_text(text)
    else:
        path = {"wheel": wheel, "archive": archive}[kind](files)
    output = run("--all", path).output
    assert output.startswith("vllm 0.33.0: ")
    assert state_of(output, "kv_cache_size")[0] == "living"
    assert state_of(output, "interval_stats")[0] == "living"


def test_a_new_wording_is_told_and_fails(wheel):
    """What an engine's developers would call a tidier message."""
    result = run(wheel({"vllm/a.py": SIZE.replace("KV cache size: %s tokens, Maximum", "KV cache holds: %s tokens, Maximum")}))
    state, below = state_of(result.output, "kv_cache_size")
    assert (state, result.exit_code) == ("BROKEN", 1)
    assert "now  '%s KV cache holds: %s tokens, Maximum concurrency for %s tokens per request: %sx'" in below


def test_a_rule_of_other_versions_fails_nobody(wheel):
    """What was never said in a version is no loss."""
    output = run(wheel({"vllm/a.py": SIZE})).output
    assert state_of(output, "v0_interval_stats") == ("", "")


def test_a_warning_that_no_rule_knows_is_told(wheel):
    """Only in files that say something we know, and only from warnings on."""
    source = SIZE + 'logger.warning("KV blocks were burnt: %d", n)\nlogger.info("fine")\n'
    output = run(wheel({"vllm/a.py": source, "vllm/other.py": 'logger.error("nobody knows")\n'})).output
    assert "vllm/a.py WARNING: 'KV blocks were burnt: %(n)d'" in output
    assert "nobody knows" not in output
    assert "fine" not in output


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [("a.whl", b"no zip at all", "neither a wheel"), ("", b"", "no such file"), ("vllm.whl", b"PK\x03\x04broken", "")],
    ids=["text", "missing", "torn"],
)
def test_what_is_no_release_is_one_clear_line(name, content, words, tmp_path):
    """Exit code 2, as for all that a user gave wrongly."""
    path = tmp_path / (name or "missing.whl")
    if name:
        path.write_bytes(content)
    result = run(path)
    assert result.exit_code == 2
    assert result.output.startswith("inferlog: ")
    assert words in result.output
    assert result.output.count("\n") == 1


def test_native_sources_are_read_as_text(wheel):
    """Neighbouring literals are one, and slots of printf are slots."""
    source = 'NIXL_INFO << "Backend " << name << " was instantiated";\nNIXL_ERROR << "registration failed for the specified "\n  "or all potential backends";\n'
    output = run("--all", wheel({"nixl/src/agent.cpp": source}, name="nixl", version="1.5.2")).output
    assert state_of(output, "registration_failed")[0] == "living"
