"""The end of `unskew demo`, where neither Kafka nor Spark runs: how one gets to see the dashboards."""

from types import SimpleNamespace

import pytest

from unskew.apps.cli import demo
from unskew.apps.cli.comparison import runs
from unskew.apps.metrics.outputs import Destinations
from unskew.dashboards.preview import data_sources, files
from unskew.kafka.connection import Connection


@pytest.fixture
def ending(monkeypatch, tmp_path, capsys):
    """The last line that a demo prints, where these parts of the stack run and those are at hand."""
    monkeypatch.setenv("UNSKEW_HOME", str(tmp_path))
    monkeypatch.setattr(demo, "_connect_kafka", lambda *_: (Connection("localhost:1"), ["unskew kafka stop"]))
    monkeypatch.setattr(demo, "_publish_stream", lambda *_: "demo")
    monkeypatch.setattr(Destinations, "of", Destinations)
    monkeypatch.setattr(demo, "_summarise_runs", lambda *_: "moral")
    monkeypatch.setattr(data_sources.DataSources, "of", lambda: SimpleNamespace(influxdb=None))
    monkeypatch.setattr(data_sources, "trim_selection", lambda selection, _: selection)
    saved = [files.Saved("overview", tmp_path / "out" / "dashboards" / "overview.png", 1, [], {})]
    monkeypatch.setattr(files, "save", lambda *_: saved)

    def end(running=(), at_hand=(), courses=4):
        monkeypatch.setattr(demo.stack, "find_server", lambda part: part in running)
        monkeypatch.setattr(demo.stack, "has_program", lambda part: part in at_hand)
        done = [SimpleNamespace(run=f"run {at}") for at in range(courses)]
        monkeypatch.setattr(runs, "run_comparison", lambda *_: done)
        demo.demo(quick=True, output=tmp_path / "out")
        return capsys.readouterr().out.splitlines()[-1]

    return end


def test_with_the_servers_the_picture_and_the_pages_address_come_last(ending, tmp_path):
    folder = tmp_path / "out" / "dashboards"
    assert ending(running=("influxdb", "prometheus")) == (
        f"See the overview in {folder}/overview.png, all dashboards at file://{folder}/index.html"
    )


def test_without_the_servers_a_line_says_how_to_get_them(ending):
    for at_hand, lacking in (
        ((), "influxdb and prometheus"),
        (("prometheus",), "influxdb"),
        (("influxdb",), "prometheus"),
    ):
        said = ending(at_hand=at_hand)
        assert said.startswith(f"No dashboards: no {lacking} on this machine")
        assert "`make servers`" in said


def test_an_interrupted_demo_has_nothing_to_see(ending):
    with pytest.raises(demo.typer.Exit):
        ending(running=("influxdb", "prometheus"), courses=0)
