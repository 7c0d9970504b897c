"""In the place of an engine: prints a captured log at twenty times its speed, then waits a minute and ends, to be started again."""

import time
from importlib import resources
from pathlib import Path

from exporter.replay import replay_log

with resources.as_file(resources.files("exporter") / "demo_logs" / "dspark.log") as saved:
    replay_log(saved, Path("/dev/stdout"), speed=20)
time.sleep(60)
