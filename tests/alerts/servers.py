"""Real programs behind an alert: Alertmanager with the snippet that is shipped, and whoever is woken."""

import json
import subprocess
import threading
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

from alerts.generate import HERE
from tests.conftest import tool
from tests.exporter.conftest import free_port, wait_for

Start = Callable[..., None]


class Pager:
    """Takes what Alertmanager sends."""

    def __init__(self) -> None:
        self.notifications: list[tuple[str, dict[str, Any]]] = []
        pager = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                pager.notifications += [(self.path, alert) for alert in body["alerts"]]
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.server.server_address[1])

    def got(self, name: str, status: str, path: str = "/page") -> list[dict[str, Any]]:
        """What came of an alert."""
        return [
            alert for at, alert in self.notifications if at == path and alert["labels"]["alertname"] == name and alert["status"] == status
        ]

    def end(self) -> None:
        """Stop listening."""
        self.server.shutdown()
        self.thread.join(10)
        self.server.server_close()


def open_url(url: str, body: Any = None) -> bytes:
    """An answer of a program on this machine."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    data = None if body is None else json.dumps(body).encode()
    with opener.open(urllib.request.Request(url, data, {"Content-Type": "application/json"}), timeout=5) as answer:
        found: bytes = answer.read()
        return found


def is_ready(port: int) -> bool:
    """Whether a program answers."""
    try:
        open_url(f"http://127.0.0.1:{port}/-/ready")
    except OSError:
        return False
    return True


class Alertmanager:
    """With the snippet as shipped, only less patient and with a pager in the place of its receivers."""

    def __init__(self, start: Start, folder: Path, pager: Pager) -> None:
        self.port = free_port()
        config: dict[str, Any] = yaml.safe_load((HERE / "alertmanager.yaml").read_text(encoding="utf-8"))
        config["route"] |= {"group_wait": "0s", "group_interval": "1s"}
        for receiver in config["receivers"]:
            for hook in receiver.get("webhook_configs", []):
                hook["url"] = hook["url"].replace("127.0.0.1:9099", f"127.0.0.1:{pager.port}")
        (folder / "alertmanager.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
        start(
            tool("prometheus-alertmanager", "prometheus-alertmanager"), f"--config.file={folder / 'alertmanager.yml'}",
            f"--storage.path={folder / 'am'}", f"--web.listen-address=127.0.0.1:{self.port}", "--cluster.listen-address=",
        )  # fmt: skip

    def wait_ready(self) -> "Alertmanager":
        """Until it answers."""
        wait_for(lambda: is_ready(self.port), "alertmanager", 60)
        return self

    def post(self, *alerts: dict[str, Any]) -> None:
        """Tell it of alerts, as Prometheus does."""
        open_url(f"http://127.0.0.1:{self.port}/api/v2/alerts", list(alerts))

    def alerts(self) -> list[tuple[dict[str, str], str]]:
        """The labels of all alerts, each with `active` or `suppressed`."""
        told = json.loads(open_url(f"http://127.0.0.1:{self.port}/api/v2/alerts"))
        return [(each["labels"], each["status"]["state"]) for each in told]


def started(folder: Path, processes: ExitStack, *command: str) -> None:
    """One more program, whose output is kept beside its data, until the stack is left."""
    with (folder / f"{Path(command[0]).name}.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    processes.callback(process.wait, 20)
    processes.callback(process.terminate)
