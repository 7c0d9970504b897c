"""The daemon as a process: sockets, signals, logging, and an orderly end."""

import logging
import signal
import socket
from types import FrameType

import uvicorn
from prometheus_client import PLATFORM_COLLECTOR, PROCESS_COLLECTOR, CollectorRegistry

from exporter.config import Config, parse_listen_address
from exporter.daemon import Daemon
from exporter.exposition import SnapshotCollector
from exporter.own_log import set_up_logging
from exporter.version import VERSION
from exporter.web import make_app

logger = logging.getLogger("inferlog")


class ListenError(Exception):
    """The address to listen on cannot be had."""


def listen(address: str) -> socket.socket:
    """A listening socket on `HOST:PORT`; all interfaces, IPv4 and IPv6, without a host. Raises ListenError."""
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
        raise ListenError(f"cannot listen on {address}: {error.strerror or error}") from error
    # Accepted sockets inherit it; asyncio sets it only on sockets it made itself. Without, a scrape waits 40 ms for an ACK.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def serve(config: Config, *, state_file_given: bool = False) -> None:
    """Follow and serve until SIGTERM or SIGINT. Raises ListenError."""
    set_up_logging(config.log.level, config.log.format)
    with listen(config.web.listen_address) as listener:
        daemon = Daemon(config)
        registry = CollectorRegistry()
        registry.register(SnapshotCollector(daemon.snapshot))
        registry.register(PROCESS_COLLECTOR)
        registry.register(PLATFORM_COLLECTOR)
        app = make_app(
            registry,
            lambda: daemon.ready,
            telemetry_path=config.web.telemetry_path,
            sources=[source.name for source in config.sources],
        )
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=5))

        def end(number: int, frame: FrameType | None) -> None:
            server.should_exit = True

        signal.signal(signal.SIGHUP, _on_hangup)
        # uvicorn has handlers of its own while it runs, and raises the signal once more when it has ended.
        signal.signal(signal.SIGTERM, end)
        signal.signal(signal.SIGINT, end)
        if state_file_given:
            logger.warning("--state-file is not used by this version: counters begin at 0 at each start")
        logger.info("inferlog %s listens on %s, sources: %s", VERSION, listener.getsockname()[:2], len(config.sources))
        daemon.start()
        try:
            server.run(sockets=[listener])
        finally:
            daemon.stop()
    logger.info("stopped")


def _on_hangup(number: int, frame: FrameType | None) -> None:
    logger.warning("SIGHUP: the configuration is not reloaded by this version")
