"""The driver of a streaming job: Spark's session, the query from its start to its orderly end, and its listeners.

``dataflow`` puts the rooms together: source, splitter, router, the stage of the workers, aggregator.
``batch_committer`` ends each batch. ``plans`` has what plans a batch.
"""
