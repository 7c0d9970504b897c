"""Pictures of the dashboards: plays a captured incident in real time (nine minutes) and draws what Prometheus has scraped.

    python -m dashboards.render.play FOLDER            # plays into FOLDER, then draws
    python -m dashboards.render.play FOLDER --again    # draws what FOLDER holds

Needs prometheus, chromium, node, and `npm install --ignore-scripts --no-package-lock` in this folder. The drawing is Grafana's own components where npm has them;
state timelines are a stand-in, and say so.
"""

import argparse
import json
import subprocess
import threading
from datetime import datetime
from pathlib import Path

from alerts.generate import files
from exporter.replay import replay_log
from tests.dashboards.plays import Play, saved
from tests.dashboards.stage import Stage, serve
from tests.exporter.conftest import free_port

HERE = Path(__file__).parent
SCRAPE_SECONDS = 5
LEAD_SECONDS = 30
"""Of quiet at both ends."""

PLAYS = {
    "decode-0": saved("vllm-0.32/captured-pd-decode", mark=".*", pd_role="decode", pd_expect="all"),
    "prefill-0": saved("vllm-0.33/rendered-prefill-nixl", mark=".*"),
    "combined-0": saved("vllm-0.33/rendered-combined-dspark", mark=".*"),
}


def play(folder: Path) -> None:
    """Each log in the rhythm of its own times, from now on."""
    quiet = {name: Play([], [], each.settings) for name, each in PLAYS.items()}
    stage = Stage(folder, quiet, scrape=f"{SCRAPE_SECONDS}s", alone=True, rules=files())
    try:
        begin = stage.now(scrapes=LEAD_SECONDS // SCRAPE_SECONDS)
        threads = [threading.Thread(target=_write, args=(stage, name, each)) for name, each in PLAYS.items()]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        end = stage.now(scrapes=LEAD_SECONDS // SCRAPE_SECONDS)
        (folder / "window.json").write_text(json.dumps({"start": begin, "end": end}))
        draw(folder, stage.prometheus)
    finally:
        stage.end()


def _write(stage: Stage, name: str, script: Play) -> None:
    told = stage.folder / f"{name}.told"
    now = datetime.now()  # noqa: DTZ005 - as the logs' own
    told.write_text("".join(f"{line}\n" for line in script.beginning(now).lines), encoding="utf-8")
    replay_log(told, stage.path(name), speed=1)


def draw(folder: Path, prometheus: str) -> None:
    """One PNG for each dashboard."""
    subprocess.run(["npm", "run", "--silent", "draw", "--", str(folder), prometheus], cwd=HERE, check=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--again", action="store_true")
    chosen = parser.parse_args()
    if chosen.again:
        address = f"127.0.0.1:{free_port()}"
        prometheus = serve(chosen.folder, address)
        try:
            draw(chosen.folder, address)
        finally:
            prometheus.terminate()
            prometheus.wait(20)
    else:
        chosen.folder.mkdir(parents=True)
        play(chosen.folder)
