"""Installs or checks Python and its packages, Java, JVM jars and class archives."""
