"""The commands `topology`, `state` and `check-work`, and what the commands' options have in common."""
