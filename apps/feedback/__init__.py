"""Feedback in a running topology: what workers and routers report becomes the plan of the next batches."""
