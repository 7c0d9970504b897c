"""Whether requests fit: into the model's length, the KV pool, and one step of the scheduler."""

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

from exporter.analysis import sweep


@dataclass(frozen=True)
class Ceilings:
    """An engine's limits, None where nobody told."""

    pool_tokens: float | None = None
    max_model_len: float | None = None
    max_batched_tokens: float | None = None
    max_running_requests: float | None = None

    def with_given(self, **given: float | None) -> "Ceilings":
        """What is given counts more than what a log tells."""
        return replace(self, **{name: value for name, value in given.items() if value is not None})


@dataclass(frozen=True)
class Room:
    """What there is to say of requests of one length."""

    prompt_tokens: int
    output_tokens: int
    concurrency: int
    rejected: bool | None
    """Whether prompt and answer together are over max_model_len."""
    fits: bool | None
    """Whether so many at a time fit into the pool."""
    pool_share: float | None
    """Of one request."""
    requests_that_fit: int | None
    running_limit: int | None
    """How many the engine runs at a time, whatever fits."""
    batch_tokens: int
    """Prompt tokens of all of them."""
    cliff: bool | None
    """Whether they are more than one step may process."""
    chunks: int | None
    """Into how many steps one prompt is cut: where more than one, a lower concurrency does not help."""


def room(ceilings: Ceilings, prompt: int, output: int, concurrency: int) -> Room:
    """The arithmetic. Nothing is assumed of a ceiling that is not known."""
    length, pool, batch = prompt + output, ceilings.pool_tokens, ceilings.max_batched_tokens
    return Room(
        prompt_tokens=prompt,
        output_tokens=output,
        concurrency=concurrency,
        rejected=None if ceilings.max_model_len is None else length > ceilings.max_model_len,
        fits=None if pool is None else concurrency * length <= pool,
        pool_share=None if pool is None else length / pool,
        requests_that_fit=None if pool is None else math.floor(pool / length),
        running_limit=None if ceilings.max_running_requests is None else int(ceilings.max_running_requests),
        batch_tokens=concurrency * prompt,
        cliff=None if batch is None else concurrency * prompt > batch,
        chunks=None if batch is None else math.ceil(prompt / batch),
    )


@dataclass(frozen=True)
class CapacityAnswer:
    """All that `inferlog capacity` says; as JSON it is this."""

    ceilings: Ceilings
    longest_requests_that_fit: float | None
    prompt_basis: str | None = None
    room: Room | None = None
    estimate: dict[str, float | None] | None = None
    estimate_basis: str | None = None
    estimate_unknown: str = ""

    def public(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def answer(
    ceilings: Ceilings, prompt: int | None, output: int, concurrency: int, rows: list[sweep.Row] | None, basis: str | None = None
) -> CapacityAnswer:  # fmt: skip
    """For requests of `prompt` tokens, or of the engine alone where None. What is rejected takes no time."""
    pool, longest = ceilings.pool_tokens, ceilings.max_model_len
    fit = pool / longest if pool is not None and longest else None
    if prompt is None:
        return CapacityAnswer(ceilings, fit)
    found = room(ceilings, prompt, output, concurrency)
    if rows is None:
        return CapacityAnswer(ceilings, fit, basis, found)
    if found.rejected or found.fits is False:
        why = "the engine rejects it" if found.rejected else "they do not fit into the pool together"
        return CapacityAnswer(ceilings, fit, basis, found, dict.fromkeys(sweep.MEASURES), None, why)
    estimate = sweep.estimate(rows, prompt, concurrency)
    return CapacityAnswer(ceilings, fit, basis, found, estimate.values, estimate.basis, estimate.why_not)


def lines(told: CapacityAnswer) -> list[tuple[str, str]]:
    """The answer in words, by name."""
    ceilings = told.ceilings
    rows = [
        ("KV pool", _tokens(ceilings.pool_tokens)),
        ("longest request", _tokens(ceilings.max_model_len) + (f", {told.longest_requests_that_fit:,.2f} of them fit" if told.longest_requests_that_fit else "")),
        ("tokens of one step", _tokens(ceilings.max_batched_tokens)),
        ("requests at a time", "not known" if ceilings.max_running_requests is None else f"{ceilings.max_running_requests:,.0f}"),
    ]  # fmt: skip
    if told.room:
        rows += [*_room_lines(told.room, ceilings, told.prompt_basis)]
    if told.estimate is not None:
        rows += [*_estimate_lines(told)]
    return rows


def _tokens(value: float | None) -> str:
    return "not known" if value is None else f"{value:,.0f} tokens"


def _room_lines(room: Room, ceilings: Ceilings, basis: str | None) -> list[tuple[str, str]]:
    length = room.prompt_tokens + room.output_tokens
    rows = [
        (
            "request",
            f"{room.prompt_tokens:,} prompt + {room.output_tokens:,} output tokens, {room.concurrency:,} at a time"
            + (f" ({basis})" if basis else ""),
        )
    ]
    if room.rejected:
        rows.append(("length", f"rejected: {length:,} is over max_model_len {ceilings.max_model_len:,.0f}"))
    elif room.rejected is False:
        rows.append(("length", "accepted"))
    if room.pool_share is not None and room.requests_that_fit is not None:
        total = room.concurrency * length
        fits = "fit" if room.fits else f"do not fit: {total:,} is over {ceilings.pool_tokens:,.0f}"
        limit = f", the engine runs {room.running_limit:,} at the most" if room.running_limit is not None else ""
        rows.append(("pool", f"{room.pool_share:.1%} each, {room.requests_that_fit:,} fit{limit}; {room.concurrency:,} at a time {fits}"))
    if room.cliff is not None and room.chunks is not None:
        rows.append(("batch", _batch(room, ceilings)))
    return rows


def _batch(room: Room, ceilings: Ceilings) -> str:
    limit = f"{ceilings.max_batched_tokens:,.0f}"
    if not room.cliff:
        return f"{room.batch_tokens:,} tokens fit into one step of {limit}"
    text = f"cliff: {room.batch_tokens:,} > {limit} tokens of one step"
    if room.chunks and room.chunks > 1:
        return f"{text}; each prompt is cut into {room.chunks:,} chunks, and a lower concurrency does not help"
    return f"{text}; first tokens wait for later steps, a lower concurrency helps"


_NAMES = {
    "ttft_seconds": ("time to first token", "{:,.2f} s"),
    "prefill_tokens_per_second": ("prefill", "{:,.1f} tokens/s"),
    "decode_tokens_per_second": ("decode", "{:,.1f} tokens/s a request"),
    "aggregate_tokens_per_second": ("aggregate", "{:,.1f} tokens/s"),
}


def _estimate_lines(told: CapacityAnswer) -> list[tuple[str, str]]:
    why_not = f"not known: {told.estimate_unknown}" if told.estimate_unknown else "not known"
    values = [(*_NAMES[key], value) for key, value in (told.estimate or {}).items()]
    return [(name, why_not if value is None else f"{form.format(value)} ({told.estimate_basis})") for name, form, value in values]
