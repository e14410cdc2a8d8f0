"""Server programs that pip does not install: found on this machine, else made or fetched once into the user's cache."""

import os

#: Whether tests must not be skipped for want of a program: `UNSKEW_REQUIRE_SERVERS=1`.
REQUIRED = os.environ.get("UNSKEW_REQUIRE_SERVERS", "") not in {"", "0"}
