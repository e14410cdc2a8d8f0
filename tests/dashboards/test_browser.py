"""The preview's page in a real browser, a headless Chromium."""

import json
import re
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from html import unescape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from threading import Thread
from typing import Any

import matplotlib.image
import pytest

from tests.waiting import PATIENCE, awaited
from unskew.dashboards import checked_in
from unskew.dashboards.preview.data_sources import DataSources, Series
from unskew.dashboards.preview.files import PAGE, html, save
from unskew.dashboards.preview.selection import Selection

pytestmark = pytest.mark.programs

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
NAMES = ["overview", "pipeline"]
LIGHT, DARK = 1, 0  # Chromium's preferredColorScheme

# What a reader with a keyboard, or without eyes, meets. Keys can't be pressed by the command line: what may have the
# focus, in the order of the page, is what the tabulator reaches.
ASKED = """
<script>
const all = [...document.querySelectorAll("a[href], summary, [tabindex]")];
const reached = all.filter(one => { one.focus(); return document.activeElement === one; });
document.body.insertAdjacentHTML("beforeend", "<pre id=found></pre>");
document.querySelector("#found").textContent = "FOUND" + JSON.stringify({
  wide: document.documentElement.scrollWidth, window: window.innerWidth,
  reached: reached.map(one => one.tagName), asked: all.length,
  targets: [...document.querySelectorAll("nav a")].map(one => !!document.querySelector(one.getAttribute("href"))),
  pictures: [...document.images].map(one => [one.naturalWidth, one.alt]),
  paper: getComputedStyle(document.body).backgroundColor, ink: getComputedStyle(document.body).color,
}) + "END";
</script>
"""


class Answering:
    """A server that knows one run."""

    def answer(self, target, selection, width):
        return [Series({"series": "KEY · a"}, "KEY · a", [NOON, NOON + timedelta(minutes=1)], [1.0, 7.25])]


@pytest.fixture(scope="module")
def chromium() -> str:
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("no Chromium on the PATH")
    return found


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    server: Any = Answering()
    folder = tmp_path_factory.mktemp("page")

    class Unmarked(DataSources):
        def marks(self, dashboard, selection):
            return []

    list(save(NAMES, Unmarked(server, server), Selection(NOON, NOON + timedelta(minutes=30)), folder))
    return folder / PAGE


@pytest.fixture
def browse(chromium, page, tmp_path):
    def run(*options: str, file: Path = page, scheme: int = LIGHT, width: int = 1400) -> bytes:
        command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
        command += [f"--blink-settings=preferredColorScheme={scheme}", f"--window-size={width},900", *options]
        return subprocess.run([*command, file.as_uri()], capture_output=True, check=True).stdout

    return run


@pytest.fixture
def found(browse, page, tmp_path):
    def ask(**how) -> dict[str, Any]:
        asking = tmp_path / "asking.html"
        asking.write_text(page.read_text().replace("</body>", f"{ASKED}</body>"))
        answer = re.search(r"FOUND(\{.*\})END</pre>", browse("--dump-dom", file=asking, **how).decode(), re.DOTALL)
        assert answer
        return json.loads(unescape(answer[1]))

    return ask


@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1400, 500], ids=["wide", "narrow"])
def test_it_fits_its_window_and_can_be_read(found, scheme, width):
    page = found(scheme=scheme, width=width)
    assert page["wide"] <= page["window"]
    paper, ink = (sum(map(int, re.findall(r"\d+", page[what])[:3])) / 3 for what in ("paper", "ink"))
    assert (paper > ink) == (scheme == LIGHT)
    assert abs(paper - ink) > 128


def test_keys_reach_all_and_every_picture_has_a_text(found):
    page = found()
    assert page["reached"] == ["A"] * len(NAMES) + ["DIV", "SUMMARY"] * len(NAMES)
    assert page["targets"] == [True] * len(NAMES)
    for (width, text), name in zip(page["pictures"], NAMES, strict=True):
        dashboard = checked_in.dashboards()[name]
        assert width == 1600
        assert text.startswith(f"{dashboard['title']} {len(dashboard['panels'])} panels")


def test_what_a_picture_shows_is_there_as_text(page):
    assert "<dt>How uneven? STD_DEV</dt>" in page.read_text()
    assert "<dd>KEY · a: 7.25 %</dd>" in page.read_text()


@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
def test_its_picture_is_as_light_or_dark_as_asked(browse, tmp_path, scheme):
    browse(f"--screenshot={tmp_path / 'shot.png'}", scheme=scheme)
    picture = matplotlib.image.imread(BytesIO((tmp_path / "shot.png").read_bytes()))
    assert (picture[..., :3].mean() > 0.5) == (scheme == LIGHT)


def test_a_page_that_follows_a_run_reloads_by_itself(chromium, page, tmp_path):
    body = html(checked_in.dashboards(), {"overview": b""}, reload=1).encode()
    loaded: list[str] = []

    class Counting(BaseHTTPRequestHandler):
        def do_GET(self):
            loaded.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format, *args):  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Counting) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"]
        command = [chromium, *options, f"--user-data-dir={tmp_path}", f"http://127.0.0.1:{server.server_port}/page"]
        browser = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            awaited(lambda: loaded.count("/page") > 2, "the page is loaded again")
        finally:
            browser.terminate()
            browser.wait(PATIENCE)
            server.shutdown()
    assert 'http-equiv="refresh"' not in page.read_text()
