"""An engine that words a line in another way is noticed: nothing that a log tells is lost in silence."""

import pytest

from tests.drift.mutations import DATA, longest, read, reworded, watched

LOGS = {
    "vllm": (
        "vllm-0.33/rendered-decode-nixl.log",
        "vllm-0.32/captured-pd-decode-proven.log",
        "vllm-0.26/rendered-combined-dspark.log",
        "vllm-0.33/rendered-crash-oom.log",
        "vllm-0.26/captured-pd-prefill-tp2.log",
        "vllm-0.32/captured-json-config-cri.log",
        "vllm-0.32/captured-bad-model.log",
    ),
    "sglang": (
        "sglang-0.5.23/rendered-startup-dspark.log",
        "sglang-0.5.23/rendered-failures.log",
        "sglang-0.5.23/rendered-batch-lines.log",
        "sglang-0.5.23/rendered-kv-pools.log",
        "sglang-0.5.17/rendered-pd-decode.log",
        "sglang-0.5.17/rendered-pd-prefill.log",
        "sglang-0.4.9/rendered-old-forms.log",
    ),
}


def _text(log):
    """As it is in the file, with the carriage returns of a terminal."""
    return (DATA / log).read_bytes().decode("utf-8")


CASES = [
    pytest.param(log, rule, piece, how, id=f"{log}-{rule.name}-{piece.strip()[:24]}-{how}")
    for runtime, logs in LOGS.items()
    for log in logs
    for text in [_text(log)]
    for rule in watched(runtime)
    for piece in dict.fromkeys(map(longest, rule.source))
    if len(piece) > 4 and piece in text
    for how in ("all", "first", "last")
    if reworded(piece, how) != piece
]


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """What each log tells as it is."""
    folder = tmp_path_factory.mktemp("logs")
    return {log: read(_text(log), folder / "log") for logs in LOGS.values() for log in logs}


@pytest.mark.parametrize("log", [log for logs in LOGS.values() for log in logs])
def test_a_log_as_it_is_has_no_drift(log, originals):
    """Nothing stays away from a log that is understood."""
    assert originals[log][1] == set()


@pytest.mark.parametrize(("log", "rule", "piece", "how"), CASES)
def test_a_new_wording_is_noticed(log, rule, piece, how, originals, tmp_path):
    """It sets format_drift or counts as an unknown warning or error, unless all that the line told is told by others."""
    told, drifted, unknown = originals[log]
    text = _text(log)
    told_now, drifted_now, unknown_now = read(text.replace(piece, reworded(piece, how)), tmp_path / "log")
    noticed = drifted_now > drifted or unknown_now > unknown
    assert noticed or told <= told_now
