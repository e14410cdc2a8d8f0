"""The commands that start and stop the servers, and `unskew doctor`, which checks the machine."""
