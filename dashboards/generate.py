"""Writes the dashboards in this folder: `make dashboards`. A test says when they are out of step."""

from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from dashboards import exporter, fleet, jit, kv, oncall, pd, spec

FOLDER = Path(__file__).parent
BOARDS = (oncall.BOARD, pd.BOARD, jit.BOARD, kv.BOARD, spec.BOARD, fleet.BOARD, exporter.BOARD)


def text() -> dict[str, str]:
    """All dashboards as JSON, by file name. A builder keeps its panels, so this is done once in a process."""
    return {f"{board.uid}.json": JSONEncoder(sort_keys=True, indent=2).encode(board.build()) + "\n" for board in BOARDS}


if __name__ == "__main__":
    for name, content in text().items():
        (FOLDER / name).write_text(content, encoding="utf-8")
