"""Groupings side by side: the same topic and settings, one run after the other."""
