"""The preview's page in a real browser, a headless Chromium."""

import re
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.programs import lacking
from unskew.dashboards import checked_in
from unskew.dashboards.preview.data_sources import DataSources, Series
from unskew.dashboards.preview.files import PAGE, save
from unskew.dashboards.preview.selection import Selection

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)


class Answering:
    """A server that knows one run."""

    def answer(self, target, selection, width):
        return [Series({"series": "KEY · a"}, "KEY · a", [NOON, NOON + timedelta(minutes=1)], [1.0, 7.25])]


class Unmarked(DataSources):
    def marks(self, dashboard, selection):
        return []


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> str:
    """The page of all dashboards."""
    server: Any = Answering()
    folder = tmp_path_factory.mktemp("page")
    list(save(checked_in.NAMES, Unmarked(server, server), Selection(NOON, NOON + timedelta(minutes=30)), folder))
    return (folder / PAGE).read_text()


def opened(text: str, folder: Path, more: str) -> tuple[str, list[str]]:
    """The document that Chromium makes of the page, with more at its end; and what is on its console."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        lacking("no Chromium on the PATH (Debian: apt-get install chromium)")
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"]
    (folder / PAGE).write_text(text.replace("</body>", f"{more}</body>"))
    command = [chromium, *options, f"--user-data-dir={folder / 'profile'}", (folder / PAGE).as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout, re.findall(r":CONSOLE.*", done.stderr)


@pytest.mark.programs
def test_a_browser_shows_all_dashboards_and_has_nothing_to_say(text, tmp_path):
    widths = "document.body.append(`widths ${[...document.images].map(one => one.naturalWidth)}`)"
    document, [said] = opened(text, tmp_path, f"<script>{widths}; console.log('ours')</script>")
    assert "ours" in said, "nothing else is on the console"
    assert "<title>unskew: dashboards</title>" in document
    assert f"widths {','.join(['1600'] * len(checked_in.NAMES))}" in document
    assert all(f'aria-label="{dashboard["title"]}"' in document for dashboard in checked_in.dashboards().values())
    assert "<dd>KEY · a: 7.25 %</dd>" in document
