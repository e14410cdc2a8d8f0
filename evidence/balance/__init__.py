"""How even the groupings are, and how many replicas they make."""
