"""Errors of a user's command that are not defects of unskew. A command prints them as one line on stderr.

There is no stack trace. The library's functions raise the same errors.
"""


class UserError(Exception):
    """A failure that the user can mend. The message is one line: what was given, what is valid, and what to do."""

    exit_code: int


class UsageError(UserError, ValueError):
    """A bad argument or option. It is a ValueError, too."""

    exit_code = 2


class EnvironmentFault(UserError):
    """The arguments are valid, but the environment isn't: no Java, no broker, no disk space, a port taken.

    Or a checkpoint can't be reached.
    """

    exit_code = 1


class TakenOver(UserError):
    """Another driver has taken over the checkpoint. Started again, this one waits until the other one has ended."""

    exit_code = 3
