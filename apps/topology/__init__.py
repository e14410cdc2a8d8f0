"""The topology, a stage a file, by the flow: source, splitter, router, placement, worker, windows, sink."""
