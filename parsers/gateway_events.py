"""The events that the lines of gateways make. A `request` is an id that a user may have chosen: private, kept as a hash at the most."""

from typing import NamedTuple


class GatewayAsked(NamedTuple):
    """A request came in."""

    request: str | None


class GatewayRouted(NamedTuple):
    """The gateway decided how a request goes: `pd`, `combined` (one engine does both) or `not_pd`."""

    route: str
    request: str | None


class GatewayForwarded(NamedTuple):
    """A request goes to an engine under the P/D strategy, whether the strategy was asked or not."""

    request: str | None


class GatewayMode(NamedTuple):
    """How the gateway was started: with `pd` every request that is answered went to a pair."""

    pd: bool


class GatewayKvParams(NamedTuple):
    """What became of the transfer parameters of a prefill's answer: `injected`, `missing` or `wrong_connector`."""

    result: str
    request: str | None


class GatewayPrefilled(NamedTuple):
    """A prefill request was answered; with `decided` no other line tells that the request goes to a pair."""

    seconds: float | None
    request: str | None
    decided: bool = False


class GatewayFailed(NamedTuple):
    """A request failed, or with `survived` only its prefill. A gateway may say so several times; 4xx are the client's and not told."""

    reason: str
    request: str | None
    survived: bool = False


class GatewayAnswered(NamedTuple):
    """The client got an answer; `generates` when it had asked for tokens."""

    code: int
    request: str | None
    generates: bool = True
