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


EXTRA = (
    "{'block_size': 4096, 'max_model_len': 1, 'kv_role': 'kv_both', 'connectors': [{'kv_connector': 'NixlConnector', 'x': {'model': 'y'}}]}"
)


def test_a_connectors_own_settings_are_not_the_engines():
    """Whatever keys the connector's extra configuration has, and whatever stands behind it."""
    config = f"KVTransferConfig(kv_connector='MultiConnector', kv_connector_extra_config={EXTRA}, kv_role='kv_consumer')"
    told = _settings(f"'kv_transfer_config': {config}, 'block_size': 64")
    assert told == {"kv_connector": "MultiConnector", "kv_role": "kv_consumer", "block_size": "64"}


@pytest.mark.parametrize(
    "other",
    [
        """'chat_template': "{% if x == {'model': 'X'} %}, 'model': 'X', 'served_model_name': ['X'], {{", """,
        """'chat_template': '{\\'model\\': \\'X\\', "model": "X"', """,
        "'hf_overrides': {'model': 'X', 'max_model_len': 1}, ",
        '\'model_loader_extra_config\': \'{"model": "X", "tensor_parallel_size": 9}\', ',
        "'lora_modules': [LoRAModulePath(name='a', model='X'), {'model': 'X'}], ",
    ],
    ids=["template", "escaped", "dict", "json", "list"],
)
def test_other_arguments_text_is_no_setting(other):
    """Templates and nested objects may hold keys that look like the engine's."""
    assert _settings(f"{other}'model': '/models/m', 'tensor_parallel_size': 2") == {"model_path": "m", "tp": "2"}


WHOLE = (
    (
        "non-default args: {'chat_template': \"a, 'model': 'X', b\", 'model': '/models/m', 'max_model_len': 131072, 'served_model_name': ['dsv4', 'b'], "
        f"'speculative_config': {{'method': 'mtp', 'num_speculative_tokens': 12}}, 'kv_transfer_config': KVTransferConfig("
        f"kv_connector='NixlConnector', kv_connector_extra_config={EXTRA}, kv_role='kv_consumer'), 'disable_log_stats': False}}"
    ),
    (
        "Initializing a V1 LLM engine (v0.10.2) with config: model='/models/Qwen3-32B', speculative_config=SpeculativeConfig(method='mtp', "
        "model=None, num_spec_tokens=12), max_seq_len=131072, tensor_parallel_size=16, kv_cache_dtype=fp8, served_model_name=qwen3, seed=0"
    ),
    "Chunked prefill is enabled with max_num_batched_tokens=8192.",
    "Creating v1 connector with name: LMCacheConnectorV1",
    "Creating v1 connector with name: NixlConnector and engine_id: b1e2",
    "Auto-fit max_model_len: reduced from 262144 to 131072 to fit in available GPU memory (58.36 GiB available for KV cache)",
    "Using fp8 data type to store kv cache. It reduces the GPU memory footprint",
)


@pytest.mark.parametrize("line", WHOLE, ids=[line[:24] for line in WHOLE])
def test_a_torn_line_tells_only_what_it_says_whole(line):
    """Where a number or a name is cut, it is left out: a shorter one is another."""

    def told(text: str) -> tuple[dict[str, str], str, bool]:
        values, version, complete = {}, "", False
        for event in read(f"{header()}{text}\n").events:
            values.update(getattr(event, "values", None) or getattr(event, "settings", {}))
            version, complete = getattr(event, "version", ""), getattr(event, "complete", False)
        return values, version, complete

    whole, version, _ = told(line)
    for end in range(len(line)):
        values, torn_version, torn_complete = told(line[:end])
        assert values.items() <= whole.items()
        assert torn_version in ("", version)
        assert not torn_complete


@pytest.mark.parametrize("version", ["0", "0.1", "0.10.", "v0.1"])
def test_a_torn_version_is_none(version):
    """Major and minor alone may be the beginning of others."""
    assert read(f"{header()}vLLM API server version {version}\n").events == []
