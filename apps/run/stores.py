"""What Spark should know of the place where a checkpoint lies."""

from collections.abc import Mapping
from pathlib import Path

from unskew.apps.checkpoint.place import Place
from unskew.deploy.installation.jars import s3a_jars

_FILE = {
    # Spark's default asks of each file whether it is a link, by a process (`readlink`): some thirty a batch, which cost
    # a fifth of its time. This one writes and renames the same files.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
_S3A = {
    # Where keys come from: what Spark hands on from the driver's environment, then AWS's usual places. S3A's own list
    # knows neither AWS's files nor web identities.
    "spark.hadoop.fs.s3a.aws.credentials.provider": (
        "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider,"
        "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider,"
        "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
    ),
    # Spark writes its logs under another name and renames them. S3 has no renaming: S3A copies and removes, in
    # some 20 requests. This writes a file where it belongs, by a PUT, which is whole or isn't there.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager"
    ),
    # Who writes a file there has looked whether there is one: S3A needn't look once more.
    "spark.hadoop.fs.s3a.performance.flags": "create",
}


def settings_for(place: Place) -> Mapping[str, str]:
    """Spark's settings for a checkpoint there; the user's win over them."""
    return {"file": _FILE, "s3a": _S3A}.get(place.scheme, {}) | place.spark


def jars_for(place: Place) -> list[Path]:
    """The archives that Spark must have besides its own."""
    return s3a_jars() if place.scheme == "s3a" else []
