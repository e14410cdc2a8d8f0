"""Feedback in a running topology: reports of workers and routers become the plan of the next batches."""
