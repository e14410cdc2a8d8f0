"""What is kept beside a query's checkpoint, so that a batch that is run again sees what it saw before."""
