"""Patches Spark's Kafka source, so that a timestamp beyond Spark's range doesn't end the query.

Kafka's timestamps are milliseconds, and Spark's are microseconds. If a producer writes nanoseconds, say, they exceed
Spark's largest time. Spark's source then fails at this message at each attempt, even if the query doesn't use the time,
and no option prevents that. This module copies the source's archive. In the copy, the class that reads timestamps calls
``TimeUnit.MILLISECONDS.toMicros`` instead, which returns the nearest possible time.
"""

import io
import logging
import os
import zipfile
from pathlib import Path

log = logging.getLogger(__name__)

_CLASS = "org/apache/spark/sql/kafka010/KafkaRecordToRowConverter$.class"

# `DateTimeUtils$.MODULE$.fromJavaTimestamp(new java.sql.Timestamp(record.timestamp()))` in Spark 4.2.0's class: JVM
# instructions, with constants' numbers.
_BEFORE_CALL = bytes.fromhex("b2 009c  bb 009e 59 2b b6 00a3 b7 00a6  b6 00aa")
_AFTER_CALL = bytes.fromhex("b2 009c  2b b6 00a3 00 00 00 00 00 00 00  b6 00aa")
# The call's field: a name (MODULE$) and a type.
_BEFORE_FIELD = bytes.fromhex("0c 0006 009a")
_AFTER_FIELD = bytes.fromhex("0c 009d 009a")
# The constants of the numbers; 9d, the class no longer created, becomes the field's name.
_CONSTANTS = {
    "org/apache/spark/sql/catalyst/util/DateTimeUtils$": "java/util/concurrent/TimeUnit",
    "Lorg/apache/spark/sql/catalyst/util/DateTimeUtils$;": "Ljava/util/concurrent/TimeUnit;",
    "java/sql/Timestamp": "MILLISECONDS",
    "fromJavaTimestamp": "toMicros",
    "(Ljava/sql/Timestamp;)J": "(J)J",
}


_STRICT = (
    "a message with a timestamp that Spark can't hold will end the run: %s. To let Kafka refuse such messages, "
    "set the topic's message.timestamp.after.max.ms"
)


def patch_jar(jar: Path) -> Path:
    """A copy of an archive whose source accepts all timestamps, or, with a warning, the archive itself.

    The copy is in the folder ``lenient`` next to the archive. If it is wrong, it is made again.
    """
    content = _build_copy(jar)
    if content is None:
        log.warning(_STRICT, f"{jar} reads timestamps in a way that this version doesn't know")
        return jar
    copy = jar.parent.parent / "lenient" / jar.name
    if not copy.is_file() or copy.read_bytes() != content:
        part = copy.with_suffix(f".{os.getpid()}.part")
        try:
            copy.parent.mkdir(exist_ok=True)
            part.write_bytes(content)
            part.replace(copy)
        except OSError as error:
            log.warning(_STRICT, f"no {copy} ({error})")
            return jar
    return copy


def _build_copy(jar: Path) -> bytes | None:
    """The copy's bytes, always the same; None if there is nothing to change."""
    made = io.BytesIO()
    with zipfile.ZipFile(jar) as archive, zipfile.ZipFile(made, "w") as new:
        found = patch_class(archive.read(_CLASS)) if _CLASS in archive.namelist() else None
        if found is None:
            return None
        for entry in archive.infolist():
            content = found if entry.filename == _CLASS else archive.read(entry)
            new.writestr(entry, content, zipfile.ZIP_STORED)
    return made.getvalue()


def patch_class(code: bytes) -> bytes | None:
    """The class with the other conversion, or None if it is an unknown class."""
    constants = {_encode_constant(before): _encode_constant(after) for before, after in _CONSTANTS.items()}
    for before, after in (constants | {_BEFORE_CALL: _AFTER_CALL, _BEFORE_FIELD: _AFTER_FIELD}).items():
        if code.count(before) != 1:
            return None
        code = code.replace(before, after)
    return code


def _encode_constant(text: str) -> bytes:
    """A string in a class file's constant pool: a tag, the length, UTF-8."""
    return b"\x01" + len(text).to_bytes(2, "big") + text.encode()
