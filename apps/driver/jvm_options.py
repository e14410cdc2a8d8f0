"""The Java options of the driver's JVM."""

import os
import re
from collections.abc import Mapping

from unskew.deploy.installation.machine import available_cores

#: Spark puts the defaults before the user's options, and the JVM takes the last of two.
DEFAULTS, EXTRA = "spark.driver.defaultJavaOptions", "spark.driver.extraJavaOptions"
MEMORY = "spark.driver.memory"

#: The optimising compiler (C2) starts at ten times Java's thresholds. With Java's, much of the CPU time of a run's
#: first half minute is spent on optimising code that runs once, and on busy cores is missing for tasks.
_LATE_OPTIMISATION = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
_COLLECTOR = "-XX:+UseSerialGC"
#: The options above were measured on two cores. With more, Java chooses.
_FEW_CORES = 2
#: Variables with the user's JVM options, besides Spark's settings.
_VARIABLES = ("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")


def add_java_options(conf: Mapping[str, str], ours: list[str], *, local: bool) -> dict[str, str]:
    """The user's Spark settings, with our Java options before the user's, which have precedence.

    ``ours`` are options that every driver needs. If tasks run in the driver (``local``) on few cores, the JVM optimises
    code later than by default, and uses the collector with the smallest heap, unless the user sets a collector or a
    memory.
    """
    options = list(ours)
    if local and available_cores() <= _FEW_CORES:
        options += _LATE_OPTIMISATION
        theirs = " ".join((conf.get(DEFAULTS, ""), conf.get(EXTRA, ""), *(os.environ.get(v, "") for v in _VARIABLES)))
        if MEMORY not in conf and not re.search(r"-XX:\+Use\w+GC\b", theirs):
            options.append(_COLLECTOR)
    return {**conf, DEFAULTS: " ".join(filter(None, (*options, conf.get(DEFAULTS))))}
