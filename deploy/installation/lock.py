"""`make lock`: write `requirements.lock`, the exact versions of everything that pip chooses for `pyproject.toml` now.

Names and versions, no addresses and no hashes: those would tie the file to one index and to one platform's wheels.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from unskew.deploy.installation.packages import LOCK

_HEADER = "# Written by `make lock` from pyproject.toml, installed by `make setup`.\n"


def lock() -> None:
    """Let pip choose, as for an empty environment, and write its choice down."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        project = f"{LOCK.parent}[dev]"
        choose = ("install", "--dry-run", "--ignore-installed", "--quiet", "--report", report.name, project)
        subprocess.run([sys.executable, "-m", "pip", *choose], check=True)
        chosen = json.loads(Path(report.name).read_text())["install"]
    pins = {item["metadata"]["name"].lower(): item["metadata"]["version"] for item in chosen}
    pins.pop("unskew")
    LOCK.write_text(_HEADER + "".join(f"{name}=={version}\n" for name, version in sorted(pins.items())))
    print(f"wrote {len(pins)} pins to {LOCK}")


if __name__ == "__main__":
    lock()
