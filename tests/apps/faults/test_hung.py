"""A run whose JVM hangs ends by `--batch-timeout`; started again, as by Docker, it has lost nothing."""

import pytest

from tests.harness.topology import check, launch, truth  # noqa: F401  fixtures
from tests.waiting import PATIENCE, gone
from unskew.apps.cli.watchdog import HUNG


@pytest.mark.nightly(group="kills")
@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.takes(150)
def test_a_run_that_hangs_ends_and_goes_on(connection, topic, truth, launch):
    topology = launch("PARTIAL_KEY", "--max-tuples", "1200", "--batch-timeout", "90")
    topology.await_batches(2)
    jvm = topology.jvm()
    jvm.suspend()
    assert topology.process.wait(PATIENCE) == HUNG, topology.output()
    output = topology.output()
    assert "Traceback" not in output
    assert output.splitlines()[-1].startswith("unskew: no batch has ended for ")
    assert gone(jvm.pid)
    topology.start()
    topology.await_end()
    check(connection, topic, "pkg", truth)
