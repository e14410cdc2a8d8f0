"""`unskew dashboards`, as its user meets it."""

import re
from datetime import timedelta
from pathlib import Path

import matplotlib.image
import pytest
from typer.testing import CliRunner

from tests.dashboards.conftest import RUNS
from tests.pages import PAGES
from tests.pictures import figures  # noqa: F401
from unskew.apps.cli.dashboards import app, metric_list
from unskew.apps.metrics.catalogue import METRICS
from unskew.dashboards import checked_in
from unskew.dashboards.preview.data_sources import DataSources, InfluxDB, Prometheus, trim_selection
from unskew.errors import EnvironmentFault, UsageError

PAGE = PAGES["docs/operations.md"]
NOWHERE = ["--influx-url", "http://127.0.0.1:1", "--influx-token", "x", "--prometheus-url", "http://127.0.0.1:1"]


pytestmark = pytest.mark.xdist_group("dashboards")


def unskew_dashboards(*arguments: str) -> str:
    """What it prints; what it raises is raised."""
    return CliRunner().invoke(app, list(arguments), catch_exceptions=False, standalone_mode=False).stdout


@pytest.fixture
def preview(seen, tmp_path):
    """Run it on the servers; what it prints, and where its files are."""
    influxdb, prometheus = seen.sources.influxdb, seen.sources.prometheus
    servers = ["--influx-url", influxdb.url, "--influx-token", seen.token, "--influx-bucket", influxdb.bucket]
    servers += ["--prometheus-url", prometheus.url, "--output", str(tmp_path / "out")]

    def run(*arguments: str) -> tuple[str, Path]:
        return unskew_dashboards("preview", *servers, *arguments), tmp_path / "out"

    return run


def test_all_metrics_are_listed():
    assert unskew_dashboards("metrics").strip() == metric_list().strip()
    assert all(f"| `{metric.name}` |" in metric_list() for metric in METRICS)


def test_a_stale_file_is_named(tmp_path, monkeypatch):
    pytest.importorskip("yaml")
    monkeypatch.setattr(checked_in, "FOLDER", tmp_path)
    with pytest.raises(EnvironmentFault, match=r"keys.json.*run `unskew dashboards generate`"):
        unskew_dashboards("generate", "--check")
    unskew_dashboards("generate")
    unskew_dashboards("generate", "--check")


@pytest.mark.nightly(group="servers")
def test_all_are_drawn_and_put_on_one_page(preview, figures):
    printed, out = preview()
    page = (out / "index.html").read_text()
    for (name, dashboard), figure in zip(checked_in.dashboards().items(), figures, strict=True):
        assert matplotlib.image.imread(out / f"{name}.png").shape[1] == 1600
        assert dashboard["title"] in page
        written = {text.get_text() for text in figure.texts}
        assert {panel["title"] for panel in dashboard["panels"]} <= written
        assert len(figure.axes) == len(dashboard["panels"])
        assert all(axes.has_data() or axes.texts for axes in figure.axes)
    # It needs nothing else.
    assert page.count('src="data:image/png;base64,') == len(checked_in.NAMES)
    assert not re.search(r"https?://", page)
    assert "no data" not in printed


@pytest.mark.nightly(group="servers")
def test_what_has_no_data_is_said(preview):
    printed, out = preview("overview", "--run", "nobody")
    panels = checked_in.dashboards()["overview"]["panels"]
    assert f"no data in {len(panels)} panels: overview: How uneven? STD_DEV" in printed
    assert sorted(path.name for path in out.iterdir()) == ["index.html", "overview.png"]


@pytest.mark.nightly(group="servers")
def test_the_time_range_is_cut_to_where_there_are_batches(seen):
    wide = type(seen.selection)(seen.selection.start - timedelta(minutes=20), seen.selection.stop, {})
    cut = trim_selection(wide, seen.sources)
    assert seen.selection.start - timedelta(minutes=1) < cut.start < cut.stop <= wide.stop
    one = trim_selection(type(wide)(wide.start, wide.stop, {"run": [RUNS["KEY"]]}), seen.sources)
    assert one.stop < cut.stop
    none = type(wide)(wide.start, wide.stop, {"run": ["nobody"]})
    assert trim_selection(none, seen.sources) == none
    alone = DataSources(None, seen.sources.prometheus)
    assert seen.selection.start - timedelta(minutes=1) < trim_selection(wide, alone).start
    assert trim_selection(none, alone) == none


def told(*arguments: str) -> str:
    with pytest.raises((UsageError, EnvironmentFault)) as error:
        unskew_dashboards("preview", *arguments)
    return str(error.value)


def test_mistakes_and_what_is_lacking_are_told(monkeypatch, tmp_path, subtests):
    monkeypatch.setenv("UNSKEW_HOME", str(tmp_path))
    for name in ("INFLUXDB_V2_URL", "INFLUXDB_V2_TOKEN", "PROMETHEUS_URL"):
        monkeypatch.delenv(name, raising=False)
    for arguments, says in (
        (["nope"], "nope: no such dashboard; valid: overview, workers"),
        (["--from", "yesterday"], "--from yesterday: no such time; valid: now, -90s"),
        (["--from", "now"], "--from now is not before --to now"),
        (["--influx-url", "localhost"], "InfluxDB's URL localhost: no address"),
        (["--influx-url", "http://x"], "InfluxDB at http://x needs a token: INFLUXDB_V2_TOKEN"),
        ([], "unskew stack start"),
        (["overview", "--from", "-1h", *NOWHERE[-2:]], "no InfluxDB of ours runs"),
        (NOWHERE[-2:], "Prometheus does not answer at http://127.0.0.1:1"),
        (NOWHERE, "InfluxDB does not answer at http://127.0.0.1:1"),
    ):
        with subtests.test(arguments=arguments):
            assert says in told(*arguments)


def test_without_influxdb_the_dashboards_of_prometheus_are_drawn(monkeypatch, tmp_path):
    monkeypatch.setenv("UNSKEW_HOME", str(tmp_path))
    monkeypatch.delenv("INFLUXDB_V2_URL", raising=False)
    monkeypatch.setattr(Prometheus, "answer", lambda *_: [])
    printed = unskew_dashboards("preview", "--output", str(tmp_path / "out"), *NOWHERE[-2:])
    assert printed.startswith("not drawn without InfluxDB (--influx-url): overview, workers, keys, groupings\n")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["balance.png", "index.html", "pipeline.png"]


def test_following_draws_until_it_is_interrupted(monkeypatch, tmp_path):
    """The page asks to be loaded anew while it follows, and no more at the end."""
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        assert 'http-equiv="refresh"' in (tmp_path / "index.html").read_text()
        if len(waits) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("unskew.apps.cli.dashboards.sleep", sleep)
    monkeypatch.setattr(DataSources, "answer", lambda *_: [])
    monkeypatch.setattr(InfluxDB, "answer", lambda *_: [])
    unskew_dashboards("preview", "overview", "--follow", "--output", str(tmp_path), *NOWHERE)
    assert len(waits) == 2
    assert 'http-equiv="refresh"' not in (tmp_path / "index.html").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index.html", "overview.png"]


def test_a_token_on_the_command_line_is_seen_by_all(monkeypatch, caplog):
    def warned(*arguments) -> list[str]:
        caplog.clear()
        with pytest.raises(UsageError, match="URL ftp://x"):
            unskew_dashboards("preview", "--influx-url", "ftp://x", *arguments)
        return [record.getMessage() for record in caplog.records]

    monkeypatch.setenv("INFLUXDB_V2_TOKEN", "s3cret")
    assert warned() == []
    [line] = warned("--influx-token", "s3cret")
    assert line.startswith("--influx-token is seen by all")
    assert line.endswith("$INFLUXDB_V2_TOKEN")
