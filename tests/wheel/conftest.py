collect_ignore = ["job.py"]  # not a test: a user's program
