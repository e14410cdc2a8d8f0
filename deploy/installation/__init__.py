"""What must be on the machine: Python and its packages, Java, JVM jars and archives of classes."""
