"""The mutants that there are, and the tests that kill them."""

import tomllib
from pathlib import Path

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]


def patches() -> dict[str, Path]:
    """Name → patch, by name."""
    return {path.stem: path for path in sorted(FOLDER.glob("*.patch"))}


def killers() -> dict[str, list[str]]:
    """Name → the tests that kill the mutant, the cheapest first."""
    return tomllib.loads((FOLDER / "killers.toml").read_text())


def meaning(patch: Path) -> str:
    """What a patch says of itself before its diff."""
    head = patch.read_text().partition("diff --git ")[0]
    return " ".join(line.removeprefix("#").strip() for line in head.splitlines()).strip()
