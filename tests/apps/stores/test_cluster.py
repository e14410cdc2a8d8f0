"""CLUSTER with checkpoints on S3: only the driver's environment has the keys, and executors get there."""

import os
import statistics
import subprocess
from itertools import pairwise

import pytest

from tests.apps.clusters import cluster, options  # noqa: F401  fixtures
from tests.commands import UNSKEW
from tests.harness.topology import WINDOW_MS, check, truth  # noqa: F401  fixtures

# With two sources and four partitions of the state; 48 to 59 were counted, but for a batch with which a query begins.
MOST_REQUESTS = 90

pytestmark = [
    pytest.mark.nightly(group="clusters"),
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.timeout(1800),
    pytest.mark.xdist_group("cluster"),
]


@pytest.mark.takes(70)
def test_executors_get_there(connection, topic, tmp_path, truth, options, cluster, s3):
    """Counts are exact, secrets stay secret, and a batch makes few requests."""
    groupings = {"KEY": "kg", "DYNAMIC_KEY": "dkg"}  # the one forgets, the other remembers
    location = s3.location(topic)
    command = [
        *(*UNSKEW, "compare", "COUNTRY_SKEW_R80", topic, "2", "4", "x0", "--groupings", ",".join(groupings)),
        *("--time", "event", "--window", str(WINDOW_MS / 1000), "--lateness", "1", "--max-tuples", "8000"),
        *("--trigger", "0.1", "--checkpoint", str(location), "--output", str(tmp_path / "out")),
        *("--bootstrap-servers", connection.bootstrap_servers, *options),
    ]
    done = subprocess.run(
        command, env=os.environ | s3.environment, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr
    for short in groupings.values():
        check(connection, topic, short, truth)

    requests = s3.requests()
    written = [what for how, what in requests if how == "PUT"]
    assert {n for n in "01" for what in written if f"/unskew/sources/{n}/" in what} == {"0", "1"}
    logs = [*cluster.directory.rglob("*.log"), *cluster.directory.rglob("stderr")]
    assert len(logs) >= 5  # of the master, two workers and their executors
    assert not any(s3.secret in log.read_text(errors="replace") for log in logs)
    assert s3.secret not in done.stdout + done.stderr

    for short in groupings.values():
        committed = [n for n, (how, what) in enumerate(requests) if how == "PUT" and f"/{short}/commits/" in what]
        batches = [requests[start:end] for start, end in pairwise(committed)]
        assert len(batches) >= 3
        assert statistics.median(map(len, batches)) <= MOST_REQUESTS
