"""The driver of a streaming job: the Spark session, the query from start to orderly end, and its listeners.

``dataflow`` connects source, splitter, router, the workers' stage and aggregator. ``batch_committer`` ends each batch.
``plans`` plans batches.
"""
