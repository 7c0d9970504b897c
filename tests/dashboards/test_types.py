"""The committed dashboards by Grafana's own types: TypeScript's compiler reads them as literals of `@grafana/schema`, which is of a newer Grafana than the SDK.

Needs node and `npm install` in tests/dashboards/types: CI installs both, elsewhere the tests are skipped.
"""

import copy
import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import tool

from .boards import BOARDS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PACKAGES = Path(__file__).parent / "types"
TSC = PACKAGES / "node_modules/typescript/bin/tsc"
KINDS = {"timeseries": "TimeSeries", "stat": "Stat", "state-timeline": "StateTimeline", "table": "Table", "bargauge": "BarGauge"}
"""Panel types by the name that the schema has for them; what a type leaves open is any other panel's."""
WITHOUT_FIELDS = {"Stat", "BarGauge"}
"""Types without a configuration of fields of their own."""
OF_THE_SDK = {"auto", "auto_count", "auto_min"}
"""Keys that the SDK writes on query variables, where the schema has them on intervals alone: Grafana passes over them."""

NO_FOOTER = {"countRows": False, "reducer": [], "show": False}
"""What the SDK writes on tables; Grafana 13 has footers on fields, and migrates the option."""

HEAD = """import type {AnnotationQuery, Dashboard, FieldConfig, FieldConfigSource, Panel, RowPanel} from '@grafana/schema';
%s
type Loose<T> = T extends string ? T | `${T}` : T extends object ? {[K in keyof T]?: Loose<T[K]>} : T;
type Fields<F> = Omit<FieldConfigSource, 'defaults'> & {defaults: Omit<FieldConfig, 'custom'> & {custom?: F}};
type Typed<O, F> = Omit<Panel, 'options' | 'fieldConfig'> & {options?: O, fieldConfig?: Fields<F>};
type OfPrometheus = {expr: string, step: string, titleFormat: string, useValueForTime: boolean};
type Board = Omit<Dashboard, 'annotations'> & {annotations: {list: (AnnotationQuery & OfPrometheus)[]}};
type None = Record<string, never>;
"""


def typescript(boards: dict[str, dict[str, Any]]) -> Iterator[str]:
    """One literal for each dashboard without its panels, and for each of its panels."""
    imports = [
        f"import type * as {name} from '@grafana/schema/dist/esm/raw/composable/{name.lower()}/panelcfg/x/{name}PanelCfg_types.gen';"
        for name in KINDS.values()
    ]
    yield HEAD % "\n".join(imports)
    for number, (name, whole) in enumerate(boards.items()):
        board = copy.deepcopy(whole)
        panels = board.pop("panels")
        for variable in board["templating"]["list"]:
            for key in OF_THE_SDK:
                variable.pop(key, None)
        yield f"// {name}\nexport const b{number}: Loose<Board> = {json.dumps(board)};\n"
        for each in panels:
            kind = KINDS.get(each["type"])
            if kind == "Table" and each["options"].get("footer") == NO_FOOTER:
                del each["options"]["footer"]
            own = f"Typed<{kind}.Options, {'None' if kind in WITHOUT_FIELDS else f'{kind}.FieldConfig'}>" if kind else "Panel"
            yield f"export const b{number}p{each['id']}: Loose<{'RowPanel' if each['type'] == 'row' else own}> = {json.dumps(each)};\n"


def complaints(folder: Path, boards: dict[str, dict[str, Any]]) -> dict[str, str]:
    """What the compiler finds wrong, by the dashboard that it stands in."""
    node = tool("node", "nodejs")
    if not TSC.exists():
        if os.environ.get("CI"):
            pytest.fail(f"npm install was not run in {PACKAGES}, and CI needs it")
        pytest.skip(f"needs npm install --ignore-scripts --no-package-lock in {PACKAGES}")
    lines = "".join(typescript(boards)).splitlines(keepends=True)
    (folder / "node_modules").symlink_to(PACKAGES / "node_modules")
    (folder / "boards.ts").write_text("".join(lines), encoding="utf-8")
    options = ["--noEmit", "--strict", "--skipLibCheck", "--moduleResolution", "bundler", "--module", "esnext", "--target", "es2022"]
    done = subprocess.run([node, TSC, *options, "boards.ts"], cwd=folder, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0 or "error TS" in done.stdout, done.stderr
    found: dict[str, str] = {}
    for number, complaint in re.findall(r"^boards\.ts\((\d+),\d+\): (.*)", done.stdout, re.MULTILINE):
        board = next(line[3:].strip() for line in reversed(lines[: int(number)]) if line.startswith("// "))
        found[board] = complaint
    return found


def test_keys_and_values_have_grafanas_types(tmp_path: Path) -> None:
    """Of dashboards, variables, annotations, panels, their options and their fields."""
    assert complaints(tmp_path, BOARDS) == {}


MISTAKES: dict[str, Callable[[dict[str, Any], dict[str, Any]], Any]] = {
    "refresh": lambda board, panel: board.update(refresh=30),
    "key": lambda board, panel: board.update(grafTooltip=1),
    "variable": lambda board, panel: board["templating"]["list"][1].update(multi="yes"),
    "annotation": lambda board, panel: board["annotations"]["list"][0].update(enabled=True),
    "number": lambda board, panel: panel["gridPos"].update(h="8"),
    "panel key": lambda board, panel: panel.update(tittle="Requests"),
    "enum": lambda board, panel: panel["options"]["legend"].update(displayMode="lst"),
    "option": lambda board, panel: panel["options"].update(legendary={}),
    "field": lambda board, panel: panel["fieldConfig"]["defaults"].update(noValeu=""),
    "type of a field": lambda board, panel: panel["fieldConfig"]["defaults"]["custom"].update(fillOpacity="10"),
    "key of a field": lambda board, panel: panel["fieldConfig"]["defaults"]["custom"].update(fillOpactity=10),
}


def test_the_compiler_sees_mistakes(tmp_path: Path) -> None:
    """Else the test above would prove nothing."""
    boards = {name: copy.deepcopy(BOARDS["inferlog-oncall"]) for name in MISTAKES}
    for name, spoil in MISTAKES.items():
        spoil(boards[name], next(each for each in boards[name]["panels"] if each["type"] == "timeseries"))
    assert complaints(tmp_path, boards).keys() == MISTAKES.keys()
