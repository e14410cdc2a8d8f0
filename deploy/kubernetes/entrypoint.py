"""The image's entry point: runs `unskew`, or on Kubernetes Spark's driver or an executor.

Spark starts its pods' containers with the arguments `driver …` or `executor`, for the entry point of Spark's images.
There Spark's JVM starts Python as its child and gets the signals, so that SIGTERM ends Spark in the middle of a batch.
This one starts Python first, which gets the signals: a topology finishes its batch, and its exit code is the
container's.
"""

import os
import shlex
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from unskew.deploy.installation.jars import pyspark_home

_EXECUTOR = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
#: An executor's argument → the container's variable with its value.
_ARGUMENTS = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}
_OPTION = "SPARK_JAVA_OPT_"  # with a number: a JVM option


def container_command(arguments: Sequence[str], environment: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """The command of a container, and its variables besides the container's.

    The arguments are Spark's `driver [--properties-file FILE] [--class NAME] PROGRAM ARGUMENT…` or `executor`, or
    anything else for `unskew`. The program is a Python file, `local:///path`.
    """
    if arguments[:1] == ["driver"]:
        return _driver_command(arguments[1:], environment)
    if arguments == ["executor"]:
        return _executor_command(environment), {}
    return ["unskew", *arguments], {}


def _driver_command(arguments: Sequence[str], environment: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    at, options = 0, {}
    while arguments[at].startswith("--"):
        options[arguments[at]] = arguments[at + 1]
        at += 2
    address = environment["SPARK_DRIVER_BIND_ADDRESS"]
    submit = ["--deploy-mode", "client"]  # the driver runs here, though an operator requests the mode `cluster`
    for setting in ("spark.driver.bindAddress", "spark.executorEnv.SPARK_DRIVER_POD_IP"):
        submit += ["--conf", f"{setting}={address}"]
    for option, value in options.items():
        submit += [] if option == "--class" else [option, value]  # the class would start Python
    # PySpark starts the JVM with these when the program creates a session.
    more = {"PYSPARK_SUBMIT_ARGS": shlex.join([*submit, "pyspark-shell"])}
    return [sys.executable, "-u", urlsplit(arguments[at]).path, *arguments[at + 1 :]], more


def _executor_command(environment: Mapping[str, str]) -> list[str]:
    home = environment.get("JAVA_HOME")
    numbered = {name.removeprefix(_OPTION): value for name, value in environment.items() if name.startswith(_OPTION)}
    paths = [environment.get(name) for name in ("HADOOP_CONF_DIR", "SPARK_CONF_DIR", "SPARK_CLASSPATH")]
    memory = environment["SPARK_EXECUTOR_MEMORY"]
    return [
        str(Path(home, "bin", "java")) if home else "java",
        *(numbered[number] for number in sorted(numbered, key=int)),
        *(f"-Xms{memory}", f"-Xmx{memory}"),
        *("-cp", ":".join([*filter(None, paths), f"{pyspark_home()}/jars/*"])),
        _EXECUTOR,
        *(part for name, variable in _ARGUMENTS.items() for part in (name, environment[variable])),
    ]


def main() -> None:
    run, more = container_command(sys.argv[1:], os.environ)
    if run[0] != "unskew":
        os.chdir(tempfile.mkdtemp())  # Spark copies files to the working directory, which isn't writable in the image
    os.execvpe(run[0], run, os.environ | more)  # noqa: S606


if __name__ == "__main__":
    main()
