"""Batch lines of SGLang's with a number that cannot be one."""

from .conftest import read
from .sglang_lines import READY, arguments, decode, prefill, tagged

TOO_MANY = int("9" * 29)


def test_a_number_that_cannot_be_one_costs_no_other() -> None:
    """29 digits are no requests and no tokens; the pool is 10 % full, and 128 tokens came from the cache."""
    reading = read(arguments(), tagged(READY, tags=""), prefill(new=TOO_MANY, cached=128), decode(running=TOO_MANY))
    assert reading.series("requests_running") == {("0",): 0}  # by the prefill batch
    assert reading.value("kv_cache_usage_ratio", "0", "device") == 0.1
    assert reading.value("generation_tokens_per_second", "0") == 84.39
    assert reading.series("prefill_tokens_total") == {("0", "computed"): 0, ("0", "cached"): 128}
    assert not any(reading.series("rule_errors_total").values())
