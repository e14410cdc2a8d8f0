"""Reads, compares and writes the checked-in dashboards, Grafana's JSON."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

#: Grafana shows a folder of this name.
FOLDER = Path(__file__).with_name("generated") / "unskew"

#: In reading order.
NAMES = ("overview", "workers", "keys", "pipeline", "groupings", "balance")


def dashboards(folder: Path = FOLDER) -> dict[str, dict[str, Any]]:
    """Name → dashboard."""
    return {name: json.loads((folder / f"{name}.json").read_text(encoding="utf-8")) for name in NAMES}


def write(files: Mapping[str, str], folder: Path) -> Iterator[str]:
    """Write the files that differ, remove those that aren't dashboards any more, and yield the names of both."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in find_outdated(files, folder):
        if name in files:
            (folder / name).write_text(files[name], encoding="utf-8")
        else:
            (folder / name).unlink()
        yield name


def find_outdated(files: Mapping[str, str], folder: Path) -> list[str]:
    """The names of files in the folder that differ from these or aren't among them."""
    there = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.json")}
    return [name for name in sorted(files.keys() | there.keys()) if files.get(name) != there.get(name)]
