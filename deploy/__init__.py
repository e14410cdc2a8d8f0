"""What the application needs around it: servers, installation, clients of Kafka and InfluxDB."""

if __name__ != "unskew.deploy":  # a second copy of every module would come of it
    raise ImportError(f"{__name__} is imported as unskew.deploy")
