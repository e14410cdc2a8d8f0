"""The dashboards as they are checked in: Grafana's JSON, for all that need no SDK."""

import json
from pathlib import Path
from typing import Any

#: Grafana shows a folder of this name.
FOLDER = Path(__file__).with_name("generated") / "unskew"

#: In the order of reading.
NAMES = ("overview", "workers", "keys", "pipeline", "groupings")


def dashboards(folder: Path = FOLDER) -> dict[str, dict[str, Any]]:
    """Name → dashboard."""
    return {name: json.loads((folder / f"{name}.json").read_text(encoding="utf-8")) for name in NAMES}
