"""Checkpoints: their locations, the run that they belong to, and versioned values beside them."""

import pickle
import sys

import pytest

import unskew.apps.checkpoint.location as location_module
from tests.commands import unskew
from unskew.apps.checkpoint.abfs import AbfsFolder
from unskew.apps.checkpoint.checkpoint import Checkpoint
from unskew.apps.checkpoint.location import Location, configure_location
from unskew.apps.checkpoint.versions import Versions
from unskew.errors import EnvironmentFault, UsageError


def test_the_same_run_may_come_back_and_another_is_refused_by_name(tmp_path):
    run = {"groupingType": "KEY", "numWorkers": 4, "groupingOptions": {"d": 2}}
    for _ in range(2):
        Checkpoint(str(tmp_path)).claim(dict(run))
    for name, value in (("groupingType", "PARTIAL_KEY"), ("numWorkers", 5)):
        with pytest.raises(UsageError, match=f"{name} {run.get(name)!r}, this one has {value!r}"):
            Checkpoint(str(tmp_path)).claim(run | {name: value})


def test_a_location_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentFault, match="can't be read"):
        Checkpoint(str(tmp_path / "file" / "checkpoint")).claim({})
    with pytest.raises(EnvironmentFault, match="can't be written"):
        Checkpoint("/proc/checkpoint").claim({})


def test_a_reader_writes_nothing(tmp_path):
    checkpoint = Checkpoint(str(tmp_path / "checkpoint"))
    assert checkpoint.read_record() == {}
    assert checkpoint.partitions() is None
    assert checkpoint.clock.ahead_ms == 0
    assert not (tmp_path / "checkpoint").exists()


@pytest.fixture(params=["path", "file:/", "file:///"])
def versions(request, tmp_path) -> Versions:
    prefix = {"path": "", "file:/": "file:", "file:///": "file://"}[request.param]
    return Versions(f"{prefix}{tmp_path}/state")


def test_a_replay_reads_what_the_first_run_read(versions, tmp_path):
    assert versions.newest(5) is None
    for _ in range(2):
        versions.write(3, b"three")
    assert versions.newest(2) is None
    versions.write(4, b"four")
    (tmp_path / "state" / ".5-interrupted").write_bytes(b"fi")
    assert versions.newest(3) == (3, b"three")
    assert versions.newest(9) == (4, b"four")


def test_old_versions_go_but_never_the_one_a_replay_needs(versions, tmp_path):
    for version in range(20):
        versions.write(version, b"%d" % version)
        # batch version - 1 wrote this; were it replayed, it would read version - 1
        if version:
            assert versions.newest(version - 1) == (version - 1, b"%d" % (version - 1))
    assert len(list((tmp_path / "state").iterdir())) <= 3


ARGUMENTS = (
    *("topology", "LOCAL", "COUNTRY_SKEW_R80", "KEY", "t", "2", "4", "x0"),
    *("--bootstrap-servers", "127.0.0.1:1"),
)


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch):
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN", "ENDPOINT_URL", "ENDPOINT_URL_S3", "REGION"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)


AT = "container@account.dfs.core.windows.net"


def test_addresses(subtests):
    for scheme, addresses in {
        "file": ["a/path", "/a/path", "file:/a", "file:///a"],
        "s3a": ["s3a://bucket", "s3a://bucket/a/b"],
        "hdfs": ["hdfs://host:8020/a", "hdfs:///a"],
        "gs": ["gs://bucket/a"],
        "abfss": [f"abfss://{AT}/a/b"],
        "abfs": [f"abfs://{AT}"],
    }.items():
        for address in addresses:
            location = Location.of(address)
            assert (location.scheme, str(location)) == (scheme, address)
            assert pickle.loads(pickle.dumps(location)) == location
    refused = ["ftp://host/a", "gs:///a", "abfss://container/a", "abfss://account.dfs.core.windows.net/a"]
    for address in (*refused, "s3a:///a", "hdfs:/a", "file://host/a"):
        with subtests.test(address):
            code, message = refusal("--checkpoint", address)
            valid = "valid: a path, file:/path, s3a://bucket/path, hdfs://"
            assert code == 2
            assert f"the checkpoint's address is '{address}'; {valid}" in message


def refusal(*options):
    """The exit code of `unskew topology` with these options, and its error as one line."""
    done = unskew(*ARGUMENTS, *options)
    return done.returncode, " ".join(done.stderr.split())


def test_dbfs_is_where_it_is_mounted(tmp_path, monkeypatch):
    monkeypatch.setattr(location_module, "_DBFS", str(tmp_path / "dbfs"))
    monkeypatch.setattr(location_module, "_VOLUMES", str(tmp_path / "Volumes"))
    volume = tmp_path / "Volumes" / "main" / "default" / "mine"
    volume.mkdir(parents=True)
    location = Location.of("dbfs:/Volumes/main/default/mine/a")
    assert (location.scheme, str(location)) == ("dbfs", "dbfs:/Volumes/main/default/mine/a")
    location.folder("unskew").write("one", b"1")
    assert (volume / "a" / "unskew" / "one").read_bytes() == b"1"
    for address in ("dbfs:/Volumes/main/default/other/a", "dbfs:/a", "dbfs:///Volumes/a", "dbfs:/Volumes"):
        with pytest.raises(EnvironmentFault, match=r"is reached by the mount .*(dbfs|other), which is not on") as error:
            Location.of(address).folder("unskew").write("one", b"1")
        assert "\n" not in str(error.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["Volumes"], "nothing was made on the disk"
    (tmp_path / "dbfs").mkdir()
    for address in ("dbfs:/a", "dbfs:///a"):
        Location.of(address).folder("unskew").write("one", b"1")
        assert Location.of(address).folder("unskew").read("one") == b"1"
    assert (tmp_path / "dbfs" / "a" / "unskew" / "one").read_bytes() == b"1"
    with pytest.raises(UsageError, match=r"is 'dbfs:a'; valid"):
        Location.of("dbfs:a")


S3A = "org.apache.hadoop.fs.s3a.S3AFileSystem"


@pytest.mark.parametrize("scheme", ["s3", "s3n", "S3"])
def test_other_schemes_of_s3_are_s3a_where_spark_has_no_other_class_for_them(scheme):
    address, name = f"{scheme}://bucket/a", f"spark.hadoop.fs.{scheme.lower()}.impl"
    endpoint = {"spark.hadoop.fs.s3a.endpoint": "http://own:1"}
    for conf in ({}, {name: S3A}):
        location = Location.of(address, conf | endpoint)
        assert (location.scheme, str(location)) == ("s3a", "s3a://bucket/a")
        assert location.access["fs.s3a.endpoint"] == "http://own:1"
        assert str(configure_location(address, conf)) == "s3a://bucket/a"
    refused = r"by com\.vendor\.Its \(fs\.s3n?\.impl\); valid: s3a://bucket/path, or fs\.s3"
    with pytest.raises(UsageError, match=refused) as error:
        Location.of(address, {name: "com.vendor.Its"})
    assert "\n" not in str(error.value)


def test_secrets_on_the_command_line_are_refused_and_not_repeated(subtests):
    code, message = refusal("--checkpoint", "s3a://AKIA:s3cret@bucket/a")
    assert code == 2
    assert "has a name or a password in it" in message
    assert "s3cret" not in message
    of_s3 = [
        f"hadoop.fs.s3a.{name}" for name in ("secret.key", "access.key", "session.token", "bucket.mine.secret.key")
    ]
    azure = "hadoop.fs.azure.account.key.account.dfs.core.windows.net"
    for name, address, variable in (
        *((each, "s3a://bucket/a", "AWS_SECRET_ACCESS_KEY") for each in (*of_s3, "executorEnv.AWS_SECRET_ACCESS_KEY")),
        (azure, f"abfss://{AT}/a", "AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN in the environment"),
    ):
        with subtests.test(name):
            code, message = refusal("--checkpoint", address, "--conf", f"spark.{name}=s3cret")
            assert code == 2
            assert f"spark.{name} would be seen by all" in message
            assert variable in message
            assert "=s3cret" not in message
            with pytest.raises(UsageError):
                configure_location("/a", {f"spark.{name}": "s3cret"})
    configure_location("/a", {"spark.hadoop.fs.azure.account.keyprovider": "a.Class"})


def test_the_environment_fills_what_settings_leave_open(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "me")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://env:1")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    settings = {
        "spark.hadoop.fs.s3a.endpoint": "http://conf:2",
        "spark.hadoop.fs.s3a.bucket.own.endpoint": "http://own:3",
    }
    assert Location.of("s3a://bucket/a").access["fs.s3a.endpoint"] == "http://env:1"
    assert Location.of("s3a://bucket/a", settings).access["fs.s3a.endpoint"] == "http://conf:2"
    location = Location.of("s3a://own/a", settings)
    assert location.access["fs.s3a.endpoint"] == "http://own:3"
    assert location.access["fs.s3a.secret.key"] == "s3cret"
    # Spark's settings go on a command line, and the location may be printed.
    assert "s3cret" not in str(location.spark)
    assert "s3cret" not in repr(location)
    assert location.spark["spark.hadoop.fs.s3a.endpoint.region"] == "eu-west-1"
    assert Location.of("/a", settings).access == {}


def test_keys_of_a_session_go_with_no_token_of_the_environment(monkeypatch):
    monkeypatch.setenv("AWS_SESSION_TOKEN", "other")
    given = {"spark.hadoop.fs.s3a.access.key": "me", "spark.hadoop.fs.s3a.secret.key": "mine"}
    assert "fs.s3a.session.token" not in Location.of("s3a://bucket/a", given).access


def test_an_address_without_a_scheme_gets_the_one_of_the_settings(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    default = {"spark.hadoop.fs.defaultFS": "hdfs://ns:8020/"}
    assert str(configure_location("a/b", {})) == f"file:{tmp_path}/a/b"
    assert str(configure_location("/a/b", {"spark.hadoop.fs.defaultFS": "file:///"})) == "file:/a/b"
    assert str(configure_location("/a/b", default)) == "hdfs://ns:8020/a/b"
    assert str(configure_location("file:/a/b", default)) == "file:/a/b"
    with pytest.raises(UsageError, match=r"is 'a/b', below fs.defaultFS hdfs://ns:8020; valid: /path, a path, file:"):
        configure_location("a/b", default)


def test_azure_takes_the_accounts_own_settings_before_those_of_all(monkeypatch):
    monkeypatch.setenv("AZURE_STORAGE_KEY", "of the environment")
    name = "spark.hadoop.fs.azure.account.key"
    given = {name: "of all", f"{name}.account.dfs.core.windows.net": "mine", f"{name}.other.dfs.core.windows.net": "x"}
    location = Location.of(f"abfss://{AT}/a", given | {"spark.hadoop.fs.azure.account.oauth2.client.secret": "y"})
    assert location.access == {"fs.azure.account.key": "mine"}
    assert "mine" not in repr(location)
    assert location.spark == {}, "Spark's settings go on a command line"
    assert Location.of(f"abfss://{AT}/a", {name: "of all"}).access["fs.azure.account.key"] == "of all"
    assert Location.of(f"abfss://{AT}/a").access["fs.azure.account.key"] == "of the environment"


def test_azures_blobs_have_an_address_of_their_own():
    own, plain = "account.blob.core.windows.net", {"fs.azure.always.use.https": "false"}
    for scheme, settings, url in (
        ("abfss", {}, f"https://{own}"),
        ("abfs", {}, f"https://{own}"),  # Hadoop's default is TLS for both
        ("abfss", plain, f"https://{own}"),
        ("abfs", plain, f"http://{own}"),
        ("abfss", {"fs.azure.abfs.endpoint": "127.0.0.1:1"}, "https://127.0.0.1:1/account"),
    ):
        access = {"fs.azure.account.key": "a2V5", **settings}
        assert AbfsFolder.at(scheme, AT, "/a", access)._container.url == f"{url}/container"


def test_stores_take_their_own_settings_alone():
    given = {"spark.hadoop.dfs.nameservices": "ns", "spark.hadoop.fs.s3a.endpoint": "x", "spark.master": "local"}
    assert Location.of("hdfs://ns/a", given).access == {"dfs.nameservices": "ns"}
    given = {"spark.hadoop.fs.gs.auth.type": "UNAUTHENTICATED", "spark.hadoop.fs.gs.block.size": "1"}
    assert Location.of("gs://bucket/a", given).access == {"fs.gs.auth.type": "UNAUTHENTICATED"}


def azure_settings(**settings):
    return {f"spark.hadoop.fs.azure.{name}": value for name, value in settings.items()}


def test_azure_takes_a_token(monkeypatch):
    """The token of the account goes before that of all. The key, which isn't used, stays here."""
    monkeypatch.setenv("AZURE_STORAGE_KEY", "of the environment")
    settings = {
        "account.auth.type": "SAS",
        "sas.fixed.token": "x",
        f"sas.fixed.token.{AT.partition('@')[2]}": "sig=s3cret",
    }
    location = Location.of(f"abfss://{AT}/a", azure_settings(**settings))
    assert location.access == {"fs.azure.account.auth.type": "SAS", "fs.azure.sas.fixed.token": "sig=s3cret"}
    assert "s3cret" not in repr(location)
    location.folder()
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", "sig=of the environment")
    by_environment = Location.of(f"abfss://{AT}/a", azure_settings(**{"account.auth.type": "SAS"}))
    assert by_environment.access["fs.azure.sas.fixed.token"] == "sig=of the environment"


def test_credentials_of_other_kinds_are_refused(monkeypatch, subtests):
    monkeypatch.delenv("AZURE_STORAGE_KEY", raising=False)
    azure, google = f"abfss://{AT}/a", "gs://bucket/a"
    kind, provider = "account.auth.type", "account.oauth.provider.type"
    of_google = "spark.hadoop.fs.gs.auth.type"
    for address, settings, says in (
        (azure, {}, r"there is no key for abfss://.*; valid: SharedKey, .*or in AZURE_STORAGE_KEY"),
        (
            *(azure, azure_settings(**{kind: "OAuth"})),
            r"auth\.type is 'OAuth', by which unskew can't reach .*; valid: SharedKey",
        ),
        (
            *(azure, azure_settings(**{kind: "OAuth", provider: "a.Class"})),
            r"'OAuth' \(fs\.azure\.account\.oauth\.provider\.type is a\.Class\), by which",
        ),
        (
            *(azure, azure_settings(**{kind: "SAS"})),
            r"there is no token for abfss://.*; or SAS, with a token in fs\.azure\.sas\.fixed",
        ),
        (
            *(azure, azure_settings(**{kind: "SAS", "sas.token.provider.type": "a.Class"})),
            r"sas\.token\.provider\.type is a\.Class, by which unskew can't get a token",
        ),
        (
            *(google, {of_google: "USER_CREDENTIALS"}),
            r"is 'USER_CREDENTIALS', by which .* gs://bucket; valid: APPLICATION_DEFAULT, ",
        ),
        (google, {of_google: "SERVICE_ACCOUNT_JSON_KEYFILE"}, r"keyfile is missing; valid: the key file's path"),
    ):
        with subtests.test(says), pytest.raises(UsageError, match=says):
            Location.of(address, settings).folder()


@pytest.mark.parametrize(
    ("address", "client", "folders", "extra"),
    [
        (f"abfss://{AT}/a", "azure.storage.blob", "abfs", "azure"),
        ("gs://bucket/a", "google.cloud.storage.retry", "gs", "gcs"),
    ],
)
def test_a_missing_client_of_a_store_is_named_with_its_extra(monkeypatch, address, client, folders, extra):
    monkeypatch.setitem(sys.modules, client, None)
    monkeypatch.delitem(sys.modules, f"unskew.apps.checkpoint.{folders}", raising=False)
    for use in (Location.of, lambda address: Location(address).folder()):
        with pytest.raises(UsageError, match=rf"needs the package .*: pip install 'unskew\[{extra}\]'") as error:
            use(address)
        assert "\n" not in str(error.value)
