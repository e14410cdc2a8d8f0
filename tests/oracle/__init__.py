"""What a run must publish, computed in plain Python. Tests and benchmarks check the topology against it."""
