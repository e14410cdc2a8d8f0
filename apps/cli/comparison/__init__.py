"""A comparison of groupings: the same topic and settings, one run after the other."""
