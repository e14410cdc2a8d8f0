"""The class of Spark's Kafka source that reads timestamps: what is changed in it, and where nothing is."""

import shutil
import zipfile

from unskew.deploy.installation import timestamp_patch
from unskew.deploy.installation.jars import connector_jars
from unskew.deploy.installation.timestamp_patch import patch_class, patch_jar


def test_one_class_is_changed():
    (copy,) = (jar for jar in connector_jars() if jar.name.startswith("spark-sql-kafka-"))
    assert copy.parent.name == "lenient"
    with zipfile.ZipFile(copy.parent.parent / "connector" / copy.name) as before, zipfile.ZipFile(copy) as after:
        assert before.namelist() == after.namelist()
        assert [name for name in before.namelist() if before.read(name) != after.read(name)] == [timestamp_patch._CLASS]
        assert patch_class(after.read(timestamp_patch._CLASS)) is None
    assert copy.read_bytes() == timestamp_patch._build_copy(copy.parent.parent / "connector" / copy.name)


def test_a_copy_that_is_not_what_it_has_to_be_is_made_again(tmp_path):
    (copy,) = (jar for jar in connector_jars() if jar.name.startswith("spark-sql-kafka-"))
    jar = tmp_path / "connector" / copy.name
    jar.parent.mkdir()
    shutil.copy(copy.parent.parent / "connector" / copy.name, jar)
    other = tmp_path / "lenient" / copy.name
    other.parent.mkdir()
    other.write_bytes(b"other")
    assert patch_jar(jar) == other
    assert other.read_bytes() == copy.read_bytes()


def test_another_version_of_the_class_stays_as_it_is_with_a_warning(tmp_path, caplog):
    jar = tmp_path / "connector" / "spark-sql-kafka-1.jar"
    jar.parent.mkdir()
    for content in {"other.class": b"x"}, {timestamp_patch._CLASS: b"\xca\xfe\xba\xbe"}:
        with zipfile.ZipFile(jar, "w") as archive:
            for name, code in content.items():
                archive.writestr(name, code)
        caplog.clear()
        assert patch_jar(jar) == jar
        (line,) = caplog.messages
        assert str(jar) in line
        assert "set the topic's message.timestamp.after.max.ms" in line
