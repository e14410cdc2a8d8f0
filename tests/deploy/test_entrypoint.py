"""What the image's containers run on Kubernetes. Java is a script here."""

import json
import re
from pathlib import Path
from zipfile import ZipFile

from tests.deploy.containers import DRIVER, RUNNER, entrypoint
from unskew.deploy.installation.jars import pyspark_home
from unskew.deploy.kubernetes.entrypoint import container_command


def test_the_driver_is_the_program_itself(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import json, os, sys\n"
        "print(json.dumps([sys.argv[1:], os.getpid(), os.getcwd(), os.environ['PYSPARK_SUBMIT_ARGS']]))\n"
        "sys.exit(3)\n"
    )
    given = [*DRIVER, *RUNNER, f"local://{program}", "topology", "--window=5", "a b"]
    done = entrypoint(*given, SPARK_DRIVER_BIND_ADDRESS="10.0.0.7")
    assert done.returncode == 3, done.stderr
    passed, _, folder, submit = json.loads(done.stdout)
    assert passed == ["topology", "--window=5", "a b"]
    assert folder != str(Path.cwd())
    assert submit.endswith(" --properties-file /opt/spark/conf/spark.properties pyspark-shell")
    assert "--deploy-mode client " in submit
    assert "--conf spark.driver.bindAddress=10.0.0.7 " in submit


EXECUTOR = {
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@unskew-driver-svc:7078",
    "SPARK_EXECUTOR_ID": "1",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_MEMORY": "2048m",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.8",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_EXECUTOR_POD_NAME": "unskew-exec-1",
    "SPARK_CONF_DIR": "/opt/spark/conf",
    "SPARK_JAVA_OPT_0": "-Dspark.driver.port=7078",
    "SPARK_JAVA_OPT_10": "-Dlast=a b",
    "SPARK_JAVA_OPT_2": "-Dsecond=1",
}


def test_an_executor_is_started_as_spark_asks(tmp_path):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    java.chmod(0o755)
    done = entrypoint("executor", JAVA_HOME=str(tmp_path), **EXECUTOR)
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert said[:5] == ["-Dspark.driver.port=7078", "-Dsecond=1", "-Dlast=a b", "-Xms2048m", "-Xmx2048m"]
    assert said[5:7] == ["-cp", f"/opt/spark/conf:{pyspark_home()}/jars/*"]
    name, *pairs = said[7:]
    passed = dict(zip(pairs[::2], pairs[1::2], strict=True))
    assert set(passed.values()) == {
        value for variable, value in EXECUTOR.items() if not re.search("JAVA_OPT|MEMORY|CONF_DIR", variable)
    }
    # Spark's own class takes these arguments.
    [jar] = (pyspark_home() / "jars").glob("spark-kubernetes_*.jar")
    with ZipFile(jar) as archive:
        code = archive.read(f"{name.replace('.', '/')}$.class")
        constants = archive.read("org/apache/spark/deploy/k8s/Constants$.class")
    assert all(argument.encode() in code for argument in passed)
    ours = {variable for variable in EXECUTOR if not variable.startswith("SPARK_JAVA_OPT_")} | {"SPARK_JAVA_OPT_"}
    assert all(variable.encode() in constants for variable in (*ours, "SPARK_DRIVER_BIND_ADDRESS"))


def test_the_first_word_says_what_is_run():
    run, more = container_command(["executor"], EXECUTOR)
    assert (run[0], more) == ("java", {}), "without JAVA_HOME"
    assert container_command(["topology", "--help"], {}) == (["unskew", "topology", "--help"], {})
    assert container_command([], {}) == (["unskew"], {})
