"""For all tests."""

from hypothesis import settings

# No deadlines: a first call may compile, and the machine may be busy.
settings.register_profile("unskew", deadline=None)
settings.load_profile("unskew")
