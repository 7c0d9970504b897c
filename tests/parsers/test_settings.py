"""What the argument line tells, in the shapes in which users give arguments."""

import pytest

from parsers.events import EngineSettings
from tests.parsers.reading import header, read


def _settings(arguments: str) -> dict[str, str]:
    (event,) = read(f"{header()}non-default args: {{{arguments}}}\n").events
    assert isinstance(event, EngineSettings)
    return event.values


@pytest.mark.parametrize(
    "config",
    [
        "{'method': 'mtp', 'num_speculative_tokens': 2, 'max_model_len': 2048, 'model': '/models/draft', 'rope': {'type': 'x'}}",
        '\'{"method": "mtp", "num_speculative_tokens": 2, "max_model_len": 2048, "model": "/models/draft"}\'',
    ],
    ids=["dict", "json"],
)
@pytest.mark.parametrize("first", [True, False])
def test_the_draft_model_has_settings_of_its_own(config, first):
    """Its name and its longest request are not the target's, wherever they stand."""
    parts = [f"'speculative_config': {config}", "'tensor_parallel_size': 4"]
    assert _settings(", ".join(parts if first else parts[::-1])) == {"spec_method": "mtp", "draft_length": "2", "tp": "4"}


@pytest.mark.parametrize(
    "config",
    [
        "KVTransferConfig(kv_connector='NixlConnector', engine_id='e', kv_role='kv_consumer', kv_load_failure_policy='fail')",
        "{'kv_connector': 'NixlConnector', 'kv_role': 'kv_consumer', 'kv_load_failure_policy': 'fail'}",
        '\'{"kv_connector":"NixlConnector","kv_role":"kv_consumer","kv_load_failure_policy":"fail"}\'',
    ],
    ids=["repr", "dict", "json"],
)
def test_the_connector_is_read_in_each_form(config):
    """As the engine shows its own object, or as the user gave it."""
    told = {"kv_connector": "NixlConnector", "kv_role": "kv_consumer", "kv_load_failure_policy": "fail"}
    assert _settings(f"'kv_transfer_config': {config}") == told


@pytest.mark.parametrize("value", ["'sk-CANARY'", "1e999", "-1", "'auto'", "'١٢'", "9" * 400])
def test_what_is_no_number_is_left_out(value):
    """A setting that is a number elsewhere is one here, or it is not told."""
    assert _settings(f"'max_model_len': {value}, 'tensor_parallel_size': {value}") == {}
