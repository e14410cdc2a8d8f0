"""Server programs that pip does not install, got once for the tests: InfluxDB and Prometheus, into the user's cache.

`unskew stack` and the tests find them there (`unskew.deploy.servers.influxdb`, `unskew.deploy.servers.prometheus`).
"""

import os

#: Whether a test fails where it lacks a program, instead of being skipped: `UNSKEW_REQUIRE_SERVERS=1`.
REQUIRED = os.environ.get("UNSKEW_REQUIRE_SERVERS", "") not in {"", "0"}
