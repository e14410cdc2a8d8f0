"""The topology, one module for each stage, in the flow's order: source, splitter, router, worker, windows, sink."""
