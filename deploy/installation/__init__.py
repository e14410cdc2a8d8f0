"""What has to be on the machine: Python packages, JVM jars, server programs."""
