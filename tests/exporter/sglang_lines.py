"""Lines of SGLang's, and whole small logs of them."""

READY = "The server is fired up and ready to roll!"
WARMUP_FAILED = "Disaggregation warmup failed (mode=decode), status codes: [500]"
SIGQUIT = "Received sigquit from a child process. It usually means the child failed."
CRASH = "Scheduler hit an exception: Traceback (most recent call last):"
PREFILL = (
    "Prefill batch, #new-seq: 1, #new-token: {new}, #cached-token: {cached}, token usage: 0.00, #running-req: 0, #queue-req: 0, "
    "#pending-token: 0, cuda graph: False, input throughput (token/s): 1.00"
)
DECODE = "Decode batch, #running-req: {running}, #token: 64, token usage: 0.10, {pair}cuda graph: True, gen throughput (token/s): 84.39, #queue-req: 0"
PAIR = "pre-allocated usage: 0.02, #prealloc-req: 2, #transfer-req: 3, #retracted-req: 1, "
ROOM = "{what} failed for request rank={rank} {of}req.rid='9c1f' {of}req.bootstrap_room={room} with exception KVTransferError(bootstrap_room=1): x"


def tagged(message: str, at: str = "02:00:00", tags: str = "TP0") -> str:
    """A line of SGLang's."""
    return f"[2026-08-03 {at}{' ' * bool(tags)}{tags}] {message}"


def arguments(at: str = "02:00:00", **given: object) -> str:
    """The first line of a launch."""
    given = {"model_path": "/models/m", "api_key": "sk-secret, tp_size=9)", **given}
    return tagged(f"server_args=ServerArgs({', '.join(f'{key}={value!r}' for key, value in given.items())})", at, "")


def answer(request: str = "POST /generate", at: str = "02:00:00", code: int = 200) -> str:
    """An access line."""
    return tagged(f'INFO:     10.0.0.7:41022 - "{request} HTTP/1.1" {code} X', at, "")


def prefill(at: str = "02:00:00", tags: str = "TP0", *, new: int = 1, cached: int = 0) -> str:
    """A prefill batch that may be a probe's."""
    return tagged(PREFILL.format(new=new, cached=cached), at, tags)


def decode(at: str = "02:00:00", tags: str = "TP0", *, running: int = 1, pair: str = "") -> str:
    """A line of the running batch; `pair` are the fields of an engine that decodes what another one prefilled."""
    return tagged(DECODE.format(running=running, pair=pair), at, tags)


def room(what: str, number: int | None = 1, rank: int = 0, at: str = "02:00:00") -> str:
    """A failed request of a pair."""
    of = "decode_req." if what.startswith("Decode") else ""
    return tagged(ROOM.format(what=what, rank=rank, of=of, room=number), at, f"TP{rank}")
