"""The counters that the rules of gateways raise."""

from parsers.rules import Series


def route(*routes: str) -> list[Series]:
    """Decisions."""
    return [Series("gateway_pd_routes_total", {"route": each}) for each in routes]


def params(*results: str) -> list[Series]:
    """Transfer parameters."""
    return [Series("gateway_kv_params_total", {"result": each}) for each in results]


def failures(*reasons: str, survived: bool = False) -> list[Series]:
    """Failed requests, or prefills whose request went on."""
    return [*([] if survived else route("failed")), *(Series("gateway_failures_total", {"reason": each}) for each in reasons)]


def prefills() -> list[Series]:
    """Prefill requests that were answered."""
    return [Series("gateway_prefills_total"), Series("gateway_prefill_seconds_total")]


def answers() -> list[Series]:
    """Answers to clients, of which those that tell of a server's failure fail a request."""
    responses = [Series("http_responses_total", {"code": code}) for code in ("2xx", "3xx", "4xx", "5xx")]
    return [*responses, *failures("other")]
