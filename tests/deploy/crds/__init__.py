"""Schemas of Kubernetes' kinds that `deploy/kubernetes` uses, reduced by `python -m tests.deploy.crds`."""
