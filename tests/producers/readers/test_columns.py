"""Any column of a table: three kinds of files, the same messages."""

import gzip
from datetime import UTC, datetime

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.producers.readers.samples import read
from unskew.errors import EnvironmentFault, UsageError
from unskew.producers.readers.columns import ColumnDataset
from unskew.producers.readers.inputs import find_inputs
from unskew.producers.readers.rejected_records import RejectLog

USERS = ["ann", "bob", None, 'c"d,e\nf', "日本", "ann"]
TIMES = [1000, 2500, 3000, 4000, 5000, 6000]


def text(time):
    return datetime.fromtimestamp(time / 1000, UTC).isoformat()


@pytest.fixture(params=["parquet", "csv", "csv.gz", "tsv", "jsonl", "jsonl.gz"])
def table(request, tmp_path):
    """The same rows in each kind of file."""
    path = tmp_path / f"rows.{request.param}"
    if request.param == "parquet":
        when = pa.array(TIMES, pa.timestamp("ms"))
        pq.write_table(pa.table({"n": range(6), "user": USERS, "when": when}), path, row_group_size=4)
        return path
    if request.param.startswith("jsonl"):
        rows = [
            {"n": n, "user": user, "when": text(time)} for n, (user, time) in enumerate(zip(USERS, TIMES, strict=True))
        ]
        data = b"".join(orjson.dumps(row) + b"\n" for row in rows)
    else:
        separator = "\t" if request.param == "tsv" else ","
        cells = ["" if user is None else '"' + user.replace('"', '""') + '"' for user in USERS]
        rows = [separator.join((str(n), cells[n], text(TIMES[n]))) for n in range(6)]
        data = "\n".join([separator.join(("n", "user", "when")), *rows, ""]).encode()
    path.write_bytes(gzip.compress(data) if request.param.endswith("gz") else data)
    return path


def reader(path, column="user", time="", rejects=None, limit=None):
    return ColumnDataset(find_inputs([str(path)]), rejects or RejectLog(), column, time, limit)


def test_text_that_others_take_for_a_null_is_a_key(tmp_path):
    path, rejects = tmp_path / "rows.csv", RejectLog()
    path.write_text("n,user\n1,NA\n2,null\n3,nan\n4,\n5,N/A\n")
    assert [message["key"] for message in read(reader(path, rejects=rejects))] == ["NA", "null", "nan", "N/A"]
    assert [(reject.line, reject.reason) for reject in rejects.samples] == [(5, "no user")]


def test_the_column_s_values_are_the_keys(table):
    rejects = RejectLog()
    dataset = reader(table, rejects=rejects)
    keys = [user for user in USERS if user is not None]
    assert read(dataset) == [{"key": key} for key in keys]
    assert [key for block in dataset.blocks() for key in block.keys.to_pylist()] == keys
    line = 4 if table.name.partition(".")[2] in ("csv", "csv.gz", "tsv") else 3  # a header is a line, too
    assert [(reject.line, reject.reason) for reject in rejects.samples] == [(line, "no user")]
    assert read(dataset, 2) == [{"key": key} for key in keys[2:]]
    assert read(reader(table, limit=3), 1) == [{"key": key} for key in keys[1:3]]


def test_times_are_taken_along(table):
    dataset = reader(table, time="when")
    assert [row["timestamp"] for row in read(dataset)] == [1000, 2500, 4000, 5000, 6000]
    assert [time for block in dataset.blocks() for time in block.times.tolist()] == [1000, 2500, 4000, 5000, 6000]


def test_numbers_are_keys_too(table):
    assert [row["key"] for row in read(reader(table, "n"))] == ["0", "1", "2", "3", "4", "5"]


def test_a_missing_column_is_named(table):
    if "jsonl" in table.name:  # where each row may have others
        rejects = RejectLog()
        assert read(reader(table, "nobody", rejects=rejects)) == []
        assert rejects.reasons == {"no nobody": 6}
        return
    with pytest.raises(UsageError, match="has no column 'nobody'; valid: n, user, when"):
        read(reader(table, "nobody"))


def test_times_that_are_no_numbers_of_ms_are_rejected(tmp_path):
    times = ["1500000000000.5", "-1000", "9" * 23, "nan", "inf", "1e300", "2013-11-01"]
    path, rejects = tmp_path / "odd.csv", RejectLog()
    path.write_text("user,when\n" + "".join(f"{number},{time}\n" for number, time in enumerate(times)))
    good = [("0", 1_500_000_000_000), ("1", -1000), ("6", 1_383_264_000_000)]
    rows = read(reader(path, time="when", rejects=rejects))
    assert [(row["key"], row["timestamp"]) for row in rows] == good
    assert rejects.reasons == {"no when": 4}

    path, rejects = tmp_path / "odd.parquet", RejectLog()
    pq.write_table(pa.table({"user": list("abcde"), "when": [1.5e12, float("nan"), 1e300, None, -1000.0]}), path)
    rows = read(reader(path, time="when", rejects=rejects))
    assert [(row["key"], row["timestamp"]) for row in rows] == [("a", 1_500_000_000_000), ("e", -1000)]
    assert rejects.reasons == {"no when": 3}


def test_times_of_other_types(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"user": ["a"], "when": pa.array(["2013-11-01"], pa.large_string())}), path)
    assert read(reader(path, time="when")) == [{"key": "a", "timestamp": 1_383_264_000_000}]
    pq.write_table(pa.table({"user": ["a"], "when": [[1]]}), path)
    with pytest.raises(UsageError, match="can't be taken as times"):
        read(reader(path, time="when"))


def numbers(rejects):
    return sorted((reject.line, reject.reason) for reject in rejects.samples)


BAD = {
    "jsonl": (
        '{"user":"ann"}\nodd\n{"n":1}\n\n{"user":"bob"}\n[1]\n{"user":{}}\n{"user":7}\n{"user"\n',
        ["ann", "bob", "7"],
        {2: "not a JSON object", 3: "no user", 6: "not a JSON object", 7: "no user", 9: "not a JSON object"},
    ),
    "csv": (
        "user,n\nann,1\nodd\n,1\nodd,1,2\nbob,1\n,1\n",
        ["ann", "bob"],
        {3: "1 fields instead of 2", 4: "no user", 5: "3 fields instead of 2", 7: "no user"},
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_rejects_have_the_numbers_of_their_rows(tmp_path, kind):
    """And count once however often a part is read."""
    text, good, bad = BAD[kind]
    path, rejects = tmp_path / f"bad.{kind}", RejectLog()
    path.write_text(text)
    dataset = reader(path, rejects=rejects)
    for _ in range(3):
        assert [row["key"] for row in read(dataset)] == good
    assert numbers(rejects) == sorted(bad.items())
    assert sum(rejects.reasons.values()) == len(bad)


def test_rows_of_a_long_table_are_numbered_on(tmp_path):
    path, rejects = tmp_path / "long.csv", RejectLog(tmp_path / "rejects")
    rows = [f"user {number},{'x' * 50}" for number in range(1, 60_001)]
    rows[9::1000] = ["odd"] * 60
    rows[10::1000] = [",1"] * 60
    path.write_text("user,n\n" + "\n".join(rows) + "\n")
    with rejects:
        assert len(read(reader(path, rejects=rejects))) == 60_000 - 120
    lines = [orjson.loads(line)["line"] for line in (tmp_path / "rejects").read_bytes().splitlines()]
    assert sorted(lines) == sorted([*range(11, 60_000, 1000), *range(12, 60_000, 1000)])


QUOTES = {
    "TSV, where it is a character": (
        'id\tn\ttitle\na\t1\t"half\nb\t2\tx\nc\t3\t"half\nd\t4\tx"\n',
        ["a", "b", "c", "d"],
        {},
    ),
    "a row that isn't UTF-8": (b'id,n\na,"x"\nb\xe9,1\n"c\xe9",2\nd,1\n', ["a", "d"], {3: "not UTF-8", 4: "not UTF-8"}),
    "no quote at all": (b"id,n\na,x\nb\xe9,1\nd,1\n", ["a", "d"], {3: "not UTF-8"}),
    "never closed": ('id,n\na,1\nb,"2\nc,3\nd,4\n', ["a", "c", "d"], {3: "a quote that encloses no field"}),
    "text behind it": ('id,n\na,"1"x\nb,"2\nc,"3"\n', ["c"], dict.fromkeys((2, 3), "a quote that encloses no field")),
    "rows within": ('id,n\na,"1\nb,2\nc,3",\nd,4\n', ["d"], {2: "3 fields instead of 2, by a quote over 3 lines"}),
}


@pytest.mark.parametrize("kind", QUOTES)
def test_a_quote_takes_no_rows_with_it(tmp_path, kind):
    text, good, bad = QUOTES[kind]
    path, rejects = tmp_path / "rows", RejectLog()
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert [row["key"] for row in read(reader(path, "id", rejects=rejects))] == good
    assert dict(numbers(rejects)) == bad


def test_a_quoted_field_may_go_on_in_the_next_part_of_the_file(tmp_path):
    path, rejects = tmp_path / "rows.csv", RejectLog()
    rows = [f'{at},"line\n\nof {at}, ""{"x" * (at % 97)}"""\n' for at in range(60_000)]
    path.write_text("id,text\n" + "".join(rows) + '7,"odd\n' + "8,good\n" * 40_000)
    keys = [row["key"] for row in read(reader(path, "id", rejects=rejects))]
    assert keys == [*map(str, range(60_000)), *["8"] * 40_000]
    assert numbers(rejects) == [(180_002, "a quote that encloses no field")]


def test_numbers_keep_their_digits(tmp_path):
    texts = ["1.50", "9007199254740993", "18446744073709551617", "18446744073709551616", "1.5", "1e3", "true"]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(f'{{"id":{text}}}\n' for text in texts))
    assert [row["key"] for row in read(reader(path, "id"))] == texts


def test_times_that_their_type_cannot_hold_do_not_wrap(tmp_path):
    path, never = tmp_path / "rows.parquet", 253_402_214_400_000
    for kind, times, good in (
        (pa.timestamp("us"), [1_000_000, 1000 * never], [1000, never]),
        (pa.uint64(), [1, 2**63 + 1], [1]),
        (pa.int64(), [1, -(2**63)], [1]),
    ):
        rejects = RejectLog()
        table = pa.table({"user": ["a"] * 2, "when": pa.array(times, kind)})
        pq.write_table(table, path, use_deprecated_int96_timestamps=True)
        assert [row["timestamp"] for row in read(reader(path, time="when", rejects=rejects))] == good
        assert rejects.total == 2 - len(good)


def test_keys_of_a_parquet_file_that_are_no_text_are_rejected(tmp_path):
    path = tmp_path / "rows.parquet"
    keys = pa.array([b"a", b"\xff", None, "日".encode()])
    for column in (keys, pa.Array.from_buffers(pa.string(), len(keys), keys.buffers())):
        rejects = RejectLog()
        pq.write_table(pa.table({"user": column}), path)
        assert [row["key"] for row in read(reader(path, rejects=rejects))] == ["a", "日"]
        assert numbers(rejects) == [(2, "not UTF-8"), (3, "no user")]


@pytest.mark.parametrize("data", [b"", b"\n\n", b"\xef\xbb\xbf", gzip.compress(b"", mtime=0)])
def test_an_empty_file_is_said(tmp_path, data):
    path = tmp_path / "rows.csv"
    path.write_bytes(data)
    with pytest.raises(EnvironmentFault, match=r"rows\.csv is empty"):
        read(reader(path))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_name_of_two_columns_is_said(tmp_path, kind):
    path = tmp_path / "rows"
    names = ["user", "n", "user"]
    if kind == "csv":
        path.write_text(",".join(names) + "\na,1,b\n")
    else:
        pq.write_table(pa.table([["a"], ["1"], ["b"]], names), path)
    assert read(reader(path, "n")) == [{"key": "1"}]
    with pytest.raises(UsageError, match="several columns 'user'"):
        read(reader(path))


def test_lists_are_no_keys(tmp_path):
    path = tmp_path / "lists.parquet"
    pq.write_table(pa.table({"tags": [[1], [2]]}), path)
    with pytest.raises(UsageError, match="can't be taken as text"):
        read(reader(path, "tags"))


def test_what_is_no_table_is_said(tmp_path):
    path = tmp_path / "odd.parquet"
    path.write_bytes(b"PAR1 and then nothing of the kind")
    with pytest.raises(EnvironmentFault, match=r"odd\.parquet cannot be read"):
        read(reader(path))
