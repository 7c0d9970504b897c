"""A stage for the dashboards: the exporter follows logs of incidents, and a Prometheus scrapes it and two engines' own metrics."""

import json
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from tests.dashboards.engines import Engine, sglang, vllm
from tests.dashboards.plays import Play
from tests.exporter.conftest import Running, free_port, wait_for

NAMESPACE = "chat"


def serve(folder: Path, address: str, *flags: str) -> "subprocess.Popen[bytes]":
    """A Prometheus with the configuration and the data of a folder."""
    with (folder / "prometheus.log").open("wb") as out:
        arguments = [
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'tsdb'}",
            f"--web.listen-address={address}",
            *flags,
        ]
        return subprocess.Popen(["prometheus", *arguments], stdout=out, stderr=out)


def ask(address: str, path: str, **parameters: object) -> dict[str, Any]:
    """An answer of Prometheus's API; empty while it does not answer."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://{address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}", timeout=60) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
    except OSError:
        return {}


class Stage:
    """Everything that runs. `act` lets the incidents happen.

    When it is `alone` the exporter has logs and nothing else: no pods, no metrics of engines, no RDMA ports. Prometheus evaluates `rules`, by file.
    """

    def __init__(
        self, folder: Path, plays: Mapping[str, Play], *, scrape: str = "1s", alone: bool = False, rules: Mapping[str, str] | None = None
    ) -> None:
        self.folder = folder
        now = datetime.now()  # noqa: DTZ005 - as the logs' own
        self.plays = {name: play.ending(now) for name, play in plays.items()}
        self.engines = {} if alone else {"decode-0": Engine(vllm), "sglang-decode-0": Engine(sglang)}
        if not alone:
            self.count("mlx5_0", 0)
            self.count("mlx5_1", 0)
        for name, play in self.plays.items():
            self.write(name, play.before)
        (folder / "state").mkdir()
        self.config = folder / "inferlog.yaml"
        self.config.write_text(yaml.safe_dump(self._configuration()), encoding="utf-8")
        self.daemon = Running(folder, free_port(), "--config", str(self.config), "--web.enable-lifecycle")
        self.others = [] if alone else [self._other()]
        self.prometheus = f"127.0.0.1:{free_port()}"
        self._server = self._start_prometheus(scrape, {name: text for name, text in (rules or {}).items() if name.endswith(".rules.yaml")})

    def _other(self) -> Running:
        """An inferlog that ends in the incident; it has nothing to tell."""
        log = self.folder / "other.log"
        log.touch()
        return Running(self.folder, free_port(), "--log", str(log))

    def path(self, name: str) -> Path:
        """The log of a source."""
        return self.folder / f"{name}.log"

    def write(self, name: str, lines: list[str]) -> None:
        """Append lines to a log."""
        with self.path(name).open("a", encoding="utf-8") as log:
            log.writelines(f"{line}\n" for line in lines)

    def count(self, device: str, octets: object) -> None:
        """What an RDMA port has counted."""
        port = self.folder / "sys/class/infiniband" / device / "ports/1"
        for name in ("counters/port_rcv_data", "counters/port_xmit_data", "hw_counters/out_of_sequence"):
            (port / name).parent.mkdir(parents=True, exist_ok=True)
            (port / name).write_text(f"{octets}\n")
        (port / "link_layer").write_text("InfiniBand\n")

    def _configuration(self) -> dict[str, Any]:
        def source(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
            own = {"engine_metrics_url": f"http://{self.engines[name].address}/own"} if name in self.engines else {}
            labels = {"labels": {"namespace": NAMESPACE, "pod": name}} if self.engines else {}
            return {"name": name, "path": str(self.path(name)), **labels, **own, **settings}

        return {
            "state_file": str(self.folder / "state/state.json"),
            **({"rdma_sysfs_root": str(self.folder / "sys")} if self.engines else {}),
            "sources": [source(name, play.settings) for name, play in self.plays.items()],
        }

    def _start_prometheus(self, scrape: str, rules: Mapping[str, str]) -> "subprocess.Popen[bytes]":
        def job(name: str, *addresses: str, **labels: str) -> dict[str, Any]:
            return {"job_name": name, "honor_labels": True, "static_configs": [{"targets": [*addresses], "labels": labels}]}

        jobs = [job("inferlog", *(f"127.0.0.1:{each.port}" for each in (self.daemon, *self.others)))]
        jobs += [job(f"engine-{name}", engine.address, namespace=NAMESPACE, pod=name) for name, engine in self.engines.items()]
        for name, text in rules.items():
            (self.folder / name).write_text(text, encoding="utf-8")
        intervals = {"scrape_interval": scrape, "scrape_timeout": scrape}
        config = self.folder / "prometheus.yml"
        config.write_text(yaml.safe_dump({"global": intervals, "rule_files": [*rules], "scrape_configs": jobs}))
        return serve(self.folder, self.prometheus)

    def ask(self, path: str, **parameters: object) -> dict[str, Any]:
        """An answer of the stage's Prometheus."""
        return ask(self.prometheus, path, **parameters)

    def now(self, *, scrapes: int = 0) -> float:
        """Wait for so many more complete scrapes of everything; Prometheus's time of the last one."""
        up = "min(count_over_time(up[1h]) and up == 1)"

        def seen() -> tuple[float, float] | None:
            result = self.ask("query", query=up).get("data", {}).get("result")
            targets = 1 + len(self.others) + len(self.engines)
            if not result or self.ask("query", query="count(up)")["data"]["result"][0]["value"][1] != str(targets):
                return None
            return float(result[0]["value"][1]), float(result[0]["value"][0])

        first, _ = wait_for(seen, "the first scrapes", 30)
        _, time = wait_for(lambda: (found := seen()) and found[0] >= first + scrapes and found, f"{scrapes} scrapes", 60)
        return float(time)

    def act(self) -> None:
        """The incidents, and a configuration that was read again."""
        for name, play in self.plays.items():
            self.write(name, play.after)
        for engine in self.engines.values():
            engine.slow = engine.refuses = True
        self.count("mlx5_0", 1 << 20)
        self.count("mlx5_1", "none")
        assert self.daemon.get("/-/reload", "POST")[0] == 200

    def break_files(self, rotated: str, shortened: str, gone: str) -> None:
        """What can go wrong beside the engines: with logs, with the configuration, with the state file, with another inferlog."""
        self.path(rotated).rename(self.folder / f"{rotated}.log.1")
        self.write(rotated, [])
        self.path(shortened).write_text("")
        self.path(gone).unlink()
        self.config.write_text("sources: none\n")
        assert self.daemon.get("/-/reload", "POST")[0] == 500
        (self.folder / "state").rename(self.folder / "state-before")
        for each in self.others:
            each.end()

    def end(self) -> None:
        """End all processes and threads."""
        self._server.terminate()
        self._server.wait(20)
        for each in (self.daemon, *self.others):
            each.end()
        for engine in self.engines.values():
            engine.end()
