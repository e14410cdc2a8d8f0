"""The topology on Kubernetes: manifests for two Spark operators, and what the image does in their pods."""
