"""Real kills: whatever dies and whenever, the final counts are those of what was published."""

import os
import random
import re
import signal
import time

import pytest

from tests.apps.process import broker, check, launch, truth, wait_for_progress  # noqa: F401  fixtures

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.kafka]


@pytest.mark.parametrize(("grouping", "short"), [("PARTIAL_KEY", "pkg"), ("DYNAMIC_KEY", "dkg")])
def test_everything_is_killed_again_and_again(broker, topic, tmp_path, truth, launch, grouping, short):
    topology = launch(grouping)
    rng = random.Random(grouping)
    for _ in range(3):
        wait_for_progress(topology, tmp_path, rng.randint(1, 3))
        time.sleep(rng.random())  # anywhere in a batch
        topology.kill()
        topology.start()
    topology.finish()
    check(broker, topic, short, truth)


def test_a_python_worker_is_killed(broker, topic, tmp_path, truth, launch):
    topology = launch("DYNAMIC_KEY", "--process-duration", "0.2")
    killed = 0
    for _ in range(4):
        wait_for_progress(topology, tmp_path, 1)
        for pid in topology.python_workers()[:2]:
            os.kill(pid, signal.SIGKILL)
            killed += 1
    assert killed
    topology.finish()
    check(broker, topic, "dkg", truth)


def test_the_jvm_is_killed_under_its_driver(broker, topic, tmp_path, truth, launch):
    topology = launch("DYNAMIC_KEY")
    wait_for_progress(topology, tmp_path, 2)
    [jvm] = topology.children("org.apache.spark.deploy.SparkSubmit")
    os.kill(jvm, signal.SIGKILL)
    assert topology.process.wait(60) == 1
    said = topology.output.read_text()
    assert "Traceback" not in said
    assert "Exception" not in said
    assert said.splitlines()[-1].startswith("unskew: Spark's JVM died (signal 9;")
    topology.start()
    topology.finish()
    check(broker, topic, "dkg", truth)


def test_the_broker_is_killed_and_comes_back(broker, topic, tmp_path, truth, launch):
    topology = launch("PARTIAL_KEY")
    for _ in range(2):
        wait_for_progress(topology, tmp_path, 2)
        broker.kill()
        time.sleep(2)
        broker.restart()
    topology.finish()
    check(broker, topic, "pkg", truth)


def test_ctrl_c_ends_in_good_order_and_the_run_goes_on(broker, topic, tmp_path, truth, launch):
    topology = launch("PARTIAL_KEY")
    wait_for_progress(topology, tmp_path, 2)
    topology.process.send_signal(signal.SIGINT)
    assert topology.process.wait(60) == 0
    said = topology.output.read_text()
    assert "Traceback" not in said
    assert re.search(r"stopped after \d+ batch(es)?; start it again, and it goes on from its checkpoint\.", said)
    topology.start()
    topology.finish()
    check(broker, topic, "pkg", truth)
