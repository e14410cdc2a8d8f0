"""The ways in which a user's command fails without being our defect: one line on stderr, no stack trace."""


class UserError(Exception):
    """What the user can mend. The message names what was given, what is valid and what to do; one line."""

    exit_code: int


class UsageError(UserError):
    """A bad argument or option."""

    exit_code = 2


class EnvironmentFault(UserError):
    """The arguments are fine, the world isn't: no Java, no broker, no disk, a port taken."""

    exit_code = 1


class TakenOver(UserError):
    """Another driver goes on with the checkpoint. To start this one again would take the checkpoint from that one."""

    exit_code = 3
