"""The launcher, and what the commands' options have in common."""
