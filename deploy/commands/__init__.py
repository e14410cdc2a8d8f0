"""The commands that start, stop and check what is in this package."""
