"""The topology on Kubernetes: manifests for two Spark operators, and the image's entry point."""
