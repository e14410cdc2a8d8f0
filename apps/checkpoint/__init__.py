"""What is kept beside a query's checkpoint, so that a batch that runs again reads what its first run read."""
