"""What a run must publish, found in plain Python: the truth that tests and benchmarks check the topology against."""
