"""What may import what, and how long a file may get."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINES = 500
OUTSIDE = {".venv", "venv", "build", "dist", "node_modules"}


def _sources(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def _module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {_module(path): path for path in _sources("parsers", "exporter")}


def _imports(module: str, *, at_import: bool = False) -> set[str]:
    """The dotted names that a module imports; with `at_import` only those that run when it is imported itself."""
    path = MODULES[module]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    names: set[str] = set()
    nodes: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while nodes:
        node = nodes.pop()
        if at_import and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if at_import and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        nodes.extend(ast.iter_child_nodes(node))
        if isinstance(node, ast.Import):
            names.update(each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package.split(".")[: len(package.split(".")) - node.level + 1]) if node.level else ""
            source = ".".join(filter(None, (base, node.module)))
            names.add(source)
            names.update(f"{source}.{each.name}" for each in node.names)
    return names


def _graph(*, at_import: bool) -> dict[str, set[str]]:
    """The modules of ours that each module imports, without a package's own re-exports of its parts."""
    graph = {}
    for module in MODULES:
        ours = {name for name in _imports(module, at_import=at_import) if name in MODULES and name != module}
        graph[module] = {name for name in ours if not module.startswith(f"{name}.")}
    return graph


def test_there_are_modules_to_check():
    """The walk finds the packages, so that the rules below are not kept by an empty list."""
    assert {"parsers", "parsers.stream", "parsers.vllm.stats", "exporter", "exporter.engine"} <= MODULES.keys()


@pytest.mark.parametrize("module", sorted(name for name in MODULES if name.partition(".")[0] == "parsers"))
def test_a_parser_imports_nothing_of_the_exporter(module):
    """Parsers know nothing of files, time, state and exposition, nor of the libraries that do."""
    roots = {name.partition(".")[0] for name in _imports(module)}
    assert not roots & {"exporter", "prometheus_client", "fastapi", "uvicorn", "watchdog", "pydantic", "yaml", "click"}


@pytest.mark.parametrize("module", sorted(name for name in MODULES if name.partition(".")[0] == "parsers"))
def test_a_parser_has_no_clock_and_no_files(module):
    """Bytes in, events out: nothing under parsers can read the time, a file, the network or the environment."""
    assert not {name.partition(".")[0] for name in _imports(module)} & {
        "time",
        "datetime",
        "os",
        "io",
        "pathlib",
        "socket",
        "threading",
        "logging",
    }


@pytest.mark.parametrize("at_import", [True, False], ids=["when imported", "in functions too"])
def test_no_module_imports_itself_in_a_circle(at_import):
    """The modules have an order in which each needs only earlier ones."""
    order = list(TopologicalSorter(_graph(at_import=at_import)).static_order())
    assert len(order) == len(MODULES)


def test_no_file_is_long():
    """No Python file of the repository has more than 500 lines."""
    paths = [path for path in ROOT.rglob("*.py") if not OUTSIDE & set(path.relative_to(ROOT).parts)]
    lines = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in paths}
    assert len(lines) > len(MODULES)
    assert {name: count for name, count in lines.items() if count > LINES} == {}
