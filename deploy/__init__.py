"""Servers for trying out and tests, installation, and deployment."""

if __name__ != "unskew.deploy":  # or every module would exist twice
    raise ImportError(f"{__name__} is imported as unskew.deploy")
