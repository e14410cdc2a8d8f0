"""The format of a command's log: text, or one line of JSON per event for log collectors."""

import json
import logging
import sys
from datetime import UTC, datetime

from unskew.errors import UsageError

VARIABLE = "UNSKEW_LOG_FORMAT"
TEXT, JSON = "text", "json"
# What commands say, in a separate log, because as text it is printed.
_events = logging.getLogger("unskew.events")


class JsonFormatter(logging.Formatter):
    """Formats a record as a line of JSON: ``time``, ``level``, ``event``, ``logger``, ``message``, and the event's
    fields.

    ``event`` is ``log`` if the record has none. Records of errors have ``traceback``.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": getattr(record, "event", "log"),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def choose_log_format(name: str) -> None:
    """Let this process log as ``text`` or ``json``. Raises ``UsageError`` if it is neither."""
    if name not in (TEXT, JSON):
        raise UsageError(f"--log-format is {name!r}; valid: {TEXT}, {JSON}")
    own = logging.getLogger("unskew")
    for handler in [each for each in own.handlers if isinstance(each.formatter, JsonFormatter)]:
        own.removeHandler(handler)
    _events.setLevel(logging.INFO)
    if name == JSON:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(JsonFormatter())
        own.addHandler(handler)


def writes_json() -> bool:
    """Whether this process logs JSON."""
    return any(isinstance(each.formatter, JsonFormatter) for each in logging.getLogger("unskew").handlers)


def report_failure(message: str, exit_code: int) -> None:
    """Report why the command ends with this exit code, as an event or a line on stderr."""
    if writes_json():
        log_event("failed", message, logging.ERROR, exit_code=exit_code)
    else:
        print(f"unskew: {message}", file=sys.stderr, flush=True)


def log_event(event: str, message: str, level: int = logging.INFO, **fields: object) -> None:
    """Log an event with its fields, whose names are stable across versions."""
    _events.log(level, "%s", message, extra={"event": event, "fields": fields})
