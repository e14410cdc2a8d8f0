import pickle

import pytest

from tests.commands import unskew
from unskew.apps.checkpoint.place import Place, asked
from unskew.errors import UsageError

ARGUMENTS = (
    "topology", "LOCAL", "COUNTRY_SKEW_R80", "KEY", "t", "2", "4", "x0", "--bootstrap-servers", "127.0.0.1:1",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch):
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN", "ENDPOINT_URL", "ENDPOINT_URL_S3", "REGION"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)


@pytest.mark.parametrize(
    ("address", "scheme"),
    [("a/path", "file"), ("/a/path", "file"), ("file:/a", "file"), ("file:///a", "file"), ("s3a://bucket", "s3a"),
     ("s3a://bucket/a/b", "s3a"), ("hdfs://host:8020/a", "hdfs"), ("hdfs:///a", "hdfs")],
)  # fmt: skip
def test_addresses(address, scheme):
    place = Place.of(address)
    assert (place.scheme, str(place)) == (scheme, address)
    assert pickle.loads(pickle.dumps(place)) == place


@pytest.mark.parametrize("address", ["s3://bucket/a", "gs://bucket/a", "s3a:///a", "hdfs:/a", "file://host/a"])
def test_other_addresses_are_refused_in_a_line(address):
    done = unskew(*ARGUMENTS, "--checkpoint", address)
    assert done.returncode == 2
    said = " ".join(done.stderr.split())
    assert f"the checkpoint's address is '{address}'; valid: a path, file:/path, s3a://bucket/path, hdfs://" in said


def test_a_password_in_an_address_is_not_repeated():
    done = unskew(*ARGUMENTS, "--checkpoint", "s3a://AKIA:s3cret@bucket/a")
    assert done.returncode == 2
    assert "has a name or a password in it" in done.stderr
    assert "s3cret" not in done.stderr


@pytest.mark.parametrize(
    "name",
    [*(f"hadoop.fs.s3a.{name}" for name in ("secret.key", "access.key", "session.token", "bucket.mine.secret.key")),
     "executorEnv.AWS_SECRET_ACCESS_KEY"],
)  # fmt: skip
def test_secrets_among_the_settings_are_refused(name):
    done = unskew(*ARGUMENTS, "--checkpoint", "s3a://bucket/a", "--conf", f"spark.{name}=s3cret")
    assert done.returncode == 2
    said = " ".join(done.stderr.split())
    assert f"spark.{name} would be seen by all" in said
    assert "AWS_SECRET_ACCESS_KEY" in said
    assert "=s3cret" not in said
    with pytest.raises(UsageError):
        asked("/a", {f"spark.{name}": "s3cret"})


def test_the_environment_fills_what_settings_leave_open(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "me")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://env:1")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    settings = {
        "spark.hadoop.fs.s3a.endpoint": "http://conf:2",
        "spark.hadoop.fs.s3a.bucket.own.endpoint": "http://own:3",
    }
    assert Place.of("s3a://bucket/a").access["fs.s3a.endpoint"] == "http://env:1"
    assert Place.of("s3a://bucket/a", settings).access["fs.s3a.endpoint"] == "http://conf:2"
    place = Place.of("s3a://own/a", settings)
    assert place.access["fs.s3a.endpoint"] == "http://own:3"
    assert place.access["fs.s3a.secret.key"] == "s3cret"
    # What Spark is told goes on a command line, and what is printed to the world.
    assert "s3cret" not in str(place.spark)
    assert "s3cret" not in repr(place)
    assert place.spark["spark.hadoop.fs.s3a.endpoint.region"] == "eu-west-1"
    assert Place.of("/a", settings).access == {}


def test_keys_of_a_session_go_with_no_token_of_the_environment(monkeypatch):
    monkeypatch.setenv("AWS_SESSION_TOKEN", "other")
    given = {"spark.hadoop.fs.s3a.access.key": "me", "spark.hadoop.fs.s3a.secret.key": "mine"}
    assert "fs.s3a.session.token" not in Place.of("s3a://bucket/a", given).access


def test_hdfs_takes_hadoops_settings():
    given = {"spark.hadoop.dfs.nameservices": "ns", "spark.hadoop.fs.s3a.endpoint": "x", "spark.master": "local"}
    assert Place.of("hdfs://ns/a", given).access == {"dfs.nameservices": "ns"}
