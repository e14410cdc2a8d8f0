"""`unskew demo`, as a user runs it first, from the wheel: no checkout, no broker, nothing set."""

import json
import os
import re
import subprocess
from collections import Counter

import pytest

from tests.apps.conftest import by_key, final_counts
from tests.waiting import PATIENCE
from tests.wheel.environments import Environment
from unskew.dashboards import checked_in
from unskew.deploy.servers import stack
from unskew.directories import data_directory
from unskew.kafka.connection import Connection
from unskew.producers.datasets.registry import create_dataset


@pytest.mark.nightly(group="documents")
@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.influxdb
@pytest.mark.takes(120)
def test_from_nothing_to_results_that_can_be_read(wheel, tmp_path):
    app = Environment.of(wheel, tmp_path / "app", ("app",))
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "jars").symlink_to(data_directory() / "jars")  # no need to fetch them again
    env = {name: value for name, value in os.environ.items() if name != "KAFKA_BOOTSTRAP_SERVERS"}
    env["UNSKEW_HOME"] = str(tmp_path / "home")

    def unskew(*arguments: str) -> str:
        command = [app.unskew, *arguments]
        done = subprocess.run(
            command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    try:
        printed = unskew("demo", "--quick", "--output", str(tmp_path / "out"))
        runs = json.loads((tmp_path / "out" / "comparison.json").read_text())["runs"]
        assert [run["grouping"] for run in runs] == ["KEY", "DYNAMIC_KEY", "BOUNDED_LOAD", "PLANNED"]
        key, dynamic, bounded, planned = runs
        assert dynamic["std_dev"] < key["std_dev"] / 2
        # DYNAMIC_KEY learns by the clock: how far it gets with so few tuples depends on the machine.
        assert dynamic["settled_std_dev"] < 0.75 * key["settled_std_dev"]
        assert 1 == key["dist_cost"] < dynamic["dist_cost"] < 10
        # BOUNDED_LOAD by the tuples: four sources, each of which lets the hot key spill over by its own count.
        assert bounded["settled_std_dev"] < key["settled_std_dev"] / 2
        assert 1 < bounded["dist_cost"] < dynamic["dist_cost"]
        # PLANNED by the batch: no worker has more than its cap of any.
        assert planned["std_dev"] < bounded["std_dev"]
        assert 1 < planned["dist_cost"] < dynamic["dist_cost"]
        assert (tmp_path / "out" / "comparison.png").exists()
        # The broker is left running: the topics that it names hold exactly what was published.
        connection = Connection(re.search(r"Kafka is ready at (\S+)", printed)[1])
        topics = re.findall(r"results (demo-\S+-aggregator)", printed)
        dataset = create_dataset("COUNTRY_SKEW_R80", records=key["tuples"])
        truth = Counter()
        for block in dataset.blocks():
            truth.update(json.loads(message)["country"] for message in block.messages.to_pylist())
        assert len(topics) == 4
        for topic in topics:
            assert by_key(final_counts(connection, topic)) == truth
            assert "Turkey" in unskew("results", topic)
            assert "load of each worker" in unskew("results", topic.replace("aggregator", "distribution"))
        assert "kafka stop" in printed
        # The servers are at hand if other tests have got them: then all runs are seen on the dashboards.
        if all(map(stack.has_program, stack.PARTS)):
            assert "stack stop" in printed
            assert "none lost" in printed
            folder = tmp_path / "out" / "dashboards"
            assert {path.stem for path in folder.glob("*.png")} == {*checked_in.NAMES}
            assert printed.rstrip().endswith(f"all dashboards at {(folder / 'index.html').as_uri()}")
        else:
            assert "`make servers` gets what is missing" in printed.splitlines()[-1]
    finally:
        unskew("kafka", "stop")
        unskew("stack", "stop")
