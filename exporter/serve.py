"""The daemon as a process: sockets, signals, logging, and an orderly end."""

import asyncio
import ctypes
import gc
import logging
import signal
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from types import FrameType

import uvicorn
from prometheus_client import PLATFORM_COLLECTOR, PROCESS_COLLECTOR, CollectorRegistry

from exporter.checkpoint import StateFile
from exporter.config import Config, ConfigError, parse_listen_address
from exporter.daemon import Daemon
from exporter.exposition import SnapshotCollector
from exporter.limits import ACCEPTED_IN_ONE_GO, IDLE_SECONDS, MOST_CONNECTIONS, MOST_HEADER_BYTES, MOST_TLS_CONNECTIONS, Listener
from exporter.own_log import set_up_logging
from exporter.version import VERSION
from exporter.web import make_app
from exporter.web_guard import Guard, WebConfigFile

_TICK_SECONDS = 1.0
_M_ARENA_MAX = -8  # malloc.h
_GRACE_SECONDS = 1
"""How long an end waits for answers that are being written."""

logger = logging.getLogger("inferlog")


class ListenError(Exception):
    """The address to listen on cannot be had."""


def listen(address: str, most: int = MOST_CONNECTIONS) -> Listener:
    """A listening socket on `HOST:PORT` for `most` connections; all interfaces, IPv4 and IPv6, without a host. Raises ListenError."""
    host, port = parse_listen_address(address)
    try:
        if host:
            family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
            listener = socket.create_server((host, port), family=family)
        elif socket.has_dualstack_ipv6():
            listener = socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
        else:
            listener = socket.create_server(("", port))
    except OSError as error:
        why, _, _ = (error.strerror or str(error)).partition(" (while")  # asyncio's words; the address is told
        raise ListenError(f"cannot listen on {address}: {why}") from error
    # Accepted sockets inherit it; asyncio sets it only on sockets it made itself. Without, a scrape waits 40 ms for an ACK.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Listener(listener, most)


class _QuietServer(uvicorn.Server):
    """Wakes once a second, for the date in the answers; uvicorn's own loop looks ten times a second whether it should end."""

    def __init__(self, config: uvicorn.Config, on_exit: Callable[[], None], each_second: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_exit, self._each_second = on_exit, each_second
        self._ending = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def main_loop(self) -> None:
        self._loop = asyncio.get_running_loop()
        while not await self.on_tick(0):
            self._each_second()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), _TICK_SECONDS)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        if self._loop:
            self._loop.call_soon_threadsafe(self._end)  # the locks that it takes may be held by what the signal interrupted

    def _end(self) -> None:
        self._on_exit()
        self._ending.set()


def serve(config: Config, reread: Callable[[], Config]) -> None:
    """Follow and serve until SIGTERM or SIGINT; `reread` gives the configuration anew, or raises ConfigError.

    Raises ConfigError for the web configuration file, ListenError and StateFileError.
    """
    set_up_logging(config.log.level, config.log.format)
    _use_one_heap()
    web_config = WebConfigFile(config.web.config_file) if config.web.config_file else None
    tls = web_config.context() if web_config else None
    most = MOST_TLS_CONNECTIONS if tls else MOST_CONNECTIONS
    with listen(config.web.listen_address, most) as listener, _state_file(config.state_file) as state_file:
        daemon = Daemon(config, state_file)
        reload = Reload(daemon, config, reread)
        registry = CollectorRegistry()
        registry.register(SnapshotCollector(daemon.snapshot))
        registry.register(PROCESS_COLLECTOR)
        registry.register(PLATFORM_COLLECTOR)
        app = make_app(
            registry,
            lambda: daemon.ready,
            reload if config.web.enable_lifecycle else None,
            healthy=lambda: daemon.healthy,
            telemetry_path=config.web.telemetry_path,
            look=daemon.look,
        )
        server = _QuietServer(_uvicorn_config(Guard(app, listener, web_config), tls), daemon.begin_to_stop, listener.cut_the_slow)

        def end(number: int, frame: FrameType | None) -> None:
            server.should_exit = True

        def hang_up(number: int, frame: FrameType | None) -> None:
            # Not here: the lock that it needs may be held by the code that the signal interrupted.
            threading.Thread(target=reload, name="reload", daemon=True).start()

        signal.signal(signal.SIGHUP, hang_up)
        # uvicorn has handlers of its own while it runs, and raises the signal once more when it has ended.
        signal.signal(signal.SIGTERM, end)
        signal.signal(signal.SIGINT, end)
        logger.info(
            "inferlog %s listens on %s://%s, sources: %s", VERSION, "https" if tls else "http", _address(listener), len(config.sources)
        )
        daemon.start()
        gc.freeze()  # what is there now stays: no later collection need look at it
        try:
            server.run(sockets=[listener])
        finally:
            daemon.stop()
    logger.info("stopped")


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _use_one_heap() -> None:
    """Keep glibc from a heap for each thread: two that read blocks and one that answers cost 3 MiB more than they need."""
    with suppress(OSError, AttributeError):  # another libc
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def _uvicorn_config(guard: Guard, tls: ssl.SSLContext | None) -> uvicorn.Config:
    config = uvicorn.Config(
        guard,
        loop="asyncio",  # others accept connections by themselves, past the listener's limits
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=ACCEPTED_IN_ONE_GO,
        h11_max_incomplete_event_size=MOST_HEADER_BYTES,
        timeout_keep_alive=int(IDLE_SECONDS),
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    config.load()
    config.ssl = tls
    return config


@contextmanager
def _state_file(path: str | None) -> Iterator[StateFile | None]:
    """The state file of this process, if it has one. Raises StateFileError."""
    if path is None:
        yield None
        return
    with closing(StateFile(Path(path))) as state_file:
        yield state_file


class Reload:
    """Reads the configuration again; a bad one leaves the old one in force."""

    def __init__(self, daemon: Daemon, config: Config, reread: Callable[[], Config]) -> None:
        self._daemon = daemon
        self._config = config
        self._reread = reread
        self._one_at_a_time = threading.Lock()

    def __call__(self) -> str:
        """Why it was not reloaded, empty when it was."""
        with self._one_at_a_time:
            try:
                config = self._reread()
            except ConfigError as error:
                return self._daemon.reload_failed(str(error))
            for key in ("web", "state_file", "log_roots"):
                if getattr(config, key) != getattr(self._config, key):
                    logger.warning("%s: a change takes a restart", key)
            set_up_logging(config.log.level, config.log.format)
            self._config = config
            return self._daemon.reload(config)
