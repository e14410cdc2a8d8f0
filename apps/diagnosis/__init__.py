"""Why a Spark task is slow: what event logs and the REST API say of stages, and what would help."""
