import pytest

from unskew.apps.checkpoint.versions import Versions


@pytest.fixture(params=["path", "file:/", "file:///"])
def versions(request, tmp_path) -> Versions:
    prefix = {"path": "", "file:/": "file:", "file:///": "file://"}[request.param]
    return Versions(f"{prefix}{tmp_path}/state")


def test_a_replay_reads_what_the_first_run_read(versions):
    versions.write(3, b"three")
    versions.write(4, b"four")
    assert versions.newest(3) == (3, b"three")
    assert versions.newest(9) == (4, b"four")


def test_nothing_is_found_before_the_first(versions):
    assert versions.newest(5) is None
    versions.write(6, b"six")
    assert versions.newest(5) is None


def test_a_second_attempt_overwrites(versions):
    versions.write(1, b"same")
    versions.write(1, b"same")
    assert versions.newest(1) == (1, b"same")


def test_old_versions_go_but_never_the_one_a_replay_needs(versions, tmp_path):
    for version in range(20):
        versions.write(version, b"%d" % version)
        # batch version - 1 wrote this; were it replayed, it would read version - 1
        if version:
            assert versions.newest(version - 1) == (version - 1, b"%d" % (version - 1))
    assert len(list((tmp_path / "state").iterdir())) <= 3


def test_a_half_written_version_is_not_seen(versions, tmp_path):
    versions.write(1, b"one")
    (tmp_path / "state" / ".2-interrupted").write_bytes(b"tw")
    assert versions.newest(2) == (1, b"one")
