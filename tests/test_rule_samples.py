"""No sample of a rule is invented: each stands in the test data of its version, whole."""

import re

import pytest

import parsers  # noqa: F401 - fills the registry
from parsers.rules import registry
from tests.evidence import DATA, LINES, ORIGINS, kept_in, kept_lines, known, release

SAMPLES = [pytest.param(rule, key, sample, id=f"{rule.name}-{key}") for rule in registry() for key, sample in rule.samples.items()]
every_sample = pytest.mark.parametrize(("rule", "key", "sample"), SAMPLES)


def _parts(version):
    """Of vLLM major and minor, of SGLang, which has stayed at 0.5 for a year, all."""
    return tuple(map(int, version.split(".")[: 3 if version.startswith(("0.4.", "0.5.")) else 2]))


@every_sample
def test_a_sample_is_a_line_of_the_test_data(rule, key, sample):
    """A real run printed it, that release's own format strings did, or somebody reported it."""
    assert known(key, sample), f"no log of {key} in {DATA} and no line in {kept_in(key)} is this sample of {rule.name}"


@every_sample
def test_a_sample_is_of_a_version_that_its_rule_claims(rule, key, sample):
    """Bounds and samples do not contradict each other."""
    engine, version = release(key)
    if version:
        assert engine == rule.runtime or not rule.runtime
        assert _parts(rule.since or version) <= _parts(version) <= _parts(rule.until or version)


@every_sample
def test_a_sample_tells_nothing_of_a_machine(rule, key, sample):
    """Paths and names are neutral."""
    assert not re.search(r"/(?:root|home|tmp|work|mnt|Users)\b|\w\.local\b", sample)


def test_what_is_kept_is_a_sample():
    """No line lies about without a rule."""
    kept = {(path, line) for path in LINES.glob("*.txt") for _, line in kept_lines(path)}
    assert kept <= {(kept_in(key), sample) for rule in registry() for key, sample in rule.samples.items()}


def test_what_is_kept_says_where_it_comes_from():
    """Each block of lines has its origin over it."""
    for path in LINES.glob("*.txt"):
        text = path.read_text("utf-8")
        assert text.startswith("# ")
        for line in text.splitlines():
            if line.startswith("# "):
                assert re.fullmatch(rf"# (?:{'|'.join(ORIGINS.values())}): .+", line), path


@pytest.mark.parametrize(
    ("key", "sample"),
    [
        ("0.33.0", "EngineCore encountered a fatal mishap."),
        ("0.33.0", "encountered a fatal error."),
        ("0.33.0", "CUDA out of memory. Tried to allocate 2.34 GiB. GPU 3 has a total capacity of 94.97 GiB"),
        ("0.10.2", "Maximum concurrency for 40,960 tokens per request: 35.95x"),
        ("0.26.1", "EngineCore encountered a fatal error."),
        ("0.33.0", "Loading weights took 64.83"),
        ("0.33.0", "Engine background task failed"),
        ("0.99.0", "EngineCore encountered a fatal error."),
        ("cobol", "EngineCore encountered a fatal error."),
    ],
    ids=[
        "invented",
        "beheaded",
        "without its exception",
        "of another patch release",
        "of no patch release",
        "shortened",
        "of another version",
        "of no version",
        "of no library",
    ],
)
def test_a_line_that_nothing_shows_is_not_known(key, sample):
    """The check itself refuses what it must refuse."""
    assert not known(key, sample)
