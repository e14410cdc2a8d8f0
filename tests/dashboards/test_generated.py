"""The checked-in JSON is what the code makes, always the same, and keeps to the rules."""

import json
import subprocess
import sys

import pytest

from unskew.dashboards.checked_in import FOLDER, NAMES, dashboards, find_outdated, write
from unskew.dashboards.lint import lint

code = pytest.importorskip("unskew.dashboards.grafana.generate", exc_type=ImportError)


def test_the_checked_in_files_are_current_and_keep_to_the_rules():
    assert find_outdated(code.render_dashboards(), FOLDER) == []
    assert list(code.DASHBOARDS) == list(NAMES)
    assert lint(dashboards()) == []


def test_writing_mends_what_differs_and_removes_what_is_no_more(tmp_path):
    files = code.render_dashboards()
    assert list(write(files, tmp_path)) == sorted(files)
    (tmp_path / "keys.json").write_text("{}")
    (tmp_path / "old.json").write_text("{}")
    assert find_outdated(files, tmp_path) == ["keys.json", "old.json"]
    assert list(write(files, tmp_path)) == ["keys.json", "old.json"]
    assert find_outdated(files, tmp_path) == []
    assert json.loads((tmp_path / "keys.json").read_text())["title"] == "Which keys are hot?"


def test_reading_them_needs_no_yaml():
    reading = "import sys; sys.modules['yaml'] = None; import unskew.apps.cli.dashboards as c; c.list_()"
    done = subprocess.run([sys.executable, "-c", reading], capture_output=True, text=True, check=True)
    assert "Is the load balanced?" in done.stdout
