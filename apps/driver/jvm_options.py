"""The Java options of the driver's JVM."""

import os
import re
from collections.abc import Mapping

from unskew.deploy.installation.machine import available_cores

#: Spark's own settings: it puts the defaults before the user's options, and the JVM takes the last of two.
DEFAULTS, EXTRA = "spark.driver.defaultJavaOptions", "spark.driver.extraJavaOptions"
MEMORY = "spark.driver.memory"

#: The optimising compiler (C2) begins at ten times Java's thresholds. With Java's own, much of the CPU time of a run's
#: first half minute goes into optimising code that runs once, which tasks then lack where cores are busy.
_LATE_OPTIMISATION = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
_COLLECTOR = "-XX:+UseSerialGC"
#: The options above were measured on two cores. With more, Java chooses.
_FEW_CORES = 2
#: Variables from which a JVM takes options of the user's, beside Spark's settings.
_VARIABLES = ("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")


def add_java_options(conf: Mapping[str, str], ours: list[str], *, local: bool) -> dict[str, str]:
    """Spark's settings with Java options of ours before those of the user, which win over ours.

    Parameters
    ----------
    conf : mapping
        The user's Spark settings.
    ours : list of str
        Options that every driver needs.
    local : bool
        Whether tasks run in the driver. If so, on few cores, the JVM optimises code later than by default, and has the
        collector with the smallest heap, unless the user names a collector or a memory.

    """
    options = list(ours)
    if local and available_cores() <= _FEW_CORES:
        options += _LATE_OPTIMISATION
        theirs = " ".join((conf.get(DEFAULTS, ""), conf.get(EXTRA, ""), *(os.environ.get(v, "") for v in _VARIABLES)))
        if MEMORY not in conf and not re.search(r"-XX:\+Use\w+GC\b", theirs):
            options.append(_COLLECTOR)
    return {**conf, DEFAULTS: " ".join(filter(None, (*options, conf.get(DEFAULTS))))}
