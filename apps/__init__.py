"""The streaming application: the topology, its run, and the commands."""

if __name__ != "unskew.apps":  # a second copy of every module would come of it
    raise ImportError(f"{__name__} is imported as unskew.apps")
