"""Runs a command that ends with its parent: `python parent_death.py PARENT_PID SIGNAL COMMAND...`.

`process.py` starts it. It sets Linux's parent-death signal, then becomes the command. A `preexec_fn` would run Python
between fork and exec, in a process that may have threads of the JVM and of librdkafka.
"""

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def main() -> None:
    parent, signal, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal)
        if os.getppid() != parent:  # the parent died before the signal was set
            sys.exit(1)
    os.execvp(command[0], command)  # noqa: S606  there is to be no shell


if __name__ == "__main__":
    main()
