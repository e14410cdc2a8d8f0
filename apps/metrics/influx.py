"""A bucket of InfluxDB, to which samples are written as points."""

from collections.abc import Mapping, Sequence
from contextlib import suppress

from influxdb_client.client.influxdb_client import InfluxDBClient
from influxdb_client.client.write.point import Point
from influxdb_client.client.write_api import SYNCHRONOUS
from influxdb_client.rest import ApiException
from urllib3 import Retry
from urllib3.exceptions import HTTPError

from unskew.apps.metrics.catalogue import Sample
from unskew.apps.metrics.outputs import InfluxTarget

_TIMEOUT = 5_000  # ms a request
_RETRIES = 3


class Bucket:
    """A target's bucket, which is made with the first points if it is missing."""

    def __init__(self, target: InfluxTarget) -> None:
        self._target = target
        self._seen = False
        retries = Retry(_RETRIES, backoff_factor=0.5, status_forcelist=[429, 502, 503, 504], allowed_methods=None)
        self._client = InfluxDBClient(target.url, target.token, org=target.org, timeout=_TIMEOUT, retries=retries)
        self._writer = self._client.write_api(SYNCHRONOUS)

    def close(self) -> None:
        self._client.close()

    def write(self, samples: Sequence[tuple[Sample, Mapping[str, str]]]) -> str:
        """Write samples, each with its run's labels. Return why they couldn't be written; empty: they were."""
        try:
            if not self._seen:
                self._make()
            points = [_make_point(*item) for item in samples]
            self._writer.write(self._target.bucket, record=points, write_precision="ms")  # type: ignore[arg-type]
        except (ApiException, HTTPError, OSError) as error:
            return _describe_error(error)
        return ""

    def _make(self) -> None:
        """Make the bucket if it is missing; a token that may write needn't have the right to look."""
        buckets = self._client.buckets_api()
        with suppress(ApiException):
            if buckets.find_bucket_by_name(self._target.bucket) is None:
                buckets.create_bucket(bucket_name=self._target.bucket, org=self._target.org)
        self._seen = True


def _make_point(sample: Sample, common: Mapping[str, str]) -> Point:
    point = Point(sample.subject.name).time(sample.time_ms, write_precision="ms")  # type: ignore[arg-type]
    for name, value in {**common, **sample.labels}.items():
        point.tag(name, value)
    for name, value in sample.values.items():
        # A field has one type for ever: InfluxDB refuses an integer where there was a float.
        point.field(name, value if isinstance(value, str) else float(value))
    return point


def _describe_error(error: Exception) -> str:
    status = getattr(error, "status", None)
    text = getattr(error, "message", None) or getattr(error, "reason", None) or error
    return f"HTTP {status}: {text}" if status else f"{type(error).__name__}: {text}"
