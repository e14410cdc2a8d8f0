"""Tests of what measures the product, and not of the product: they are nightly ones."""

from pathlib import Path

import pytest


def mark_nightly(items: list[pytest.Item], folder: Path, *but: str) -> None:
    """Put the tests of a folder in the nightly group ``evidence``, but for those of these files."""
    for item in items:
        if item.path.parent == folder and item.path.name not in but:
            item.add_marker(pytest.mark.nightly(group="evidence"))
