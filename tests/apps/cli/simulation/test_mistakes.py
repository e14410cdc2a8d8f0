"""Mistakes of users: one line that names the value, and what is valid."""

import pytest

from tests.commands import unskew

#: The command line, and what is said of it.
MISTAKES = {
    "zipff": "stream is 'zipff'; valid: zipf",
    "nofile.parquet:key": "stream is 'nofile.parquet:key'",
    "counts:none.csv": "counts:none.csv is no file; valid: counts:FILE.csv",
    "zipf:q=1": "zipf has no parameter 'q'; valid: z, k",
    "zipf:z=much": "z is 'much'; valid: a number like 1.0",
    "zipf:k=0": "k is 0",
    "zipf:k=inf": "k is inf",
    "COUNTRY_SKEW_R80:z=1": "stream is 'COUNTRY_SKEW_R80:z=1'; valid: COUNTRY_SKEW_R80, as a dataset has no",
    "kafka:": "valid: kafka:TOPIC",
    "zipf --groupings NONE": "unknown grouping 'NONE'",
    "zipf --groupings ,": "--groupings is empty",
    "zipf --groupings PARTIAL_KEY:choices=many": "choices is 'many'",
    "zipf --groupings PARTIAL_KEY:choices=1": "choices is 1",
    "zipf --groupings KEY,PLANNED:weights=2,SHUFFLE": "weights is 2; valid: a number above 0 for each of 10",
    "zipf --groupings PLANNED:weights=1,2,KEY": "weights is [1, 2]; valid: a number above 0 for each of 10",
    "zipf --workers ten": "--workers is 'ten'",
    "zipf --workers 0": "--workers is '0'",
    "zipf --cost -1": "--cost is '-1'",
    "zipf --load 0": "load is 0",
    "zipf --split odd": "split is 'odd'; valid: even, key",
    "zipf --feedback-interval 1e-300": "--feedback-interval is 1e-300; valid: a number of at least 0.001",
    "zipf --feedback-delay -2": "--feedback-delay is -2.0; valid",
    "zipf --window -2": "--window is -2.0; valid: a number above 0",
    "zipf --cost 1 --fixed inf": "the batches take inf s; valid: a stream of less than 1e+15 s by --cost, --factors",
    "zipf --cost 1e99 --groupings KEY": "s; valid: a stream of less than 1e+15 s",
    "zipf --recorded": "--recorded",
    "zipf --sweep slak=1": "'slak'",
    "zipf --sweep sources=0": "--sweep sources is '0'; valid: whole numbers of at least 1",
    "zipf --sweep seed=1 --sweep seed=2": "--sweep seed is given twice; valid: --sweep seed=VALUE,… with all values",
    "zipf --groupings BOUNDED_LOAD --sweep slack=": "--sweep is 'slack='; valid: NAME=VALUE,…",
    "zipf --sweep seed=x": "--sweep seed is 'x'",
    "zipf --sweep seed=1 --show most": "--show has 'most'",
    "zipf hot --cost 1": "--sweep, --show and several streams show no times",
    "zipf --cost 1 --work unskew.operators:TopK": "--cost and --work are both given",
    "zipf --cores 2": "--cores is about the time of batches; valid: with --cost or --work",
    "zipf --fixed 2": "--fixed is about",
    "zipf --cost 1 --load 0.5": "--load says nothing of the time of batches; valid: with --details or --output",
    "zipf --work unskew.operators:TopK --feedback-delay 1": "--feedback-delay says nothing of the time of batches",
    "zipf hot --details": "--details says nothing of a table of many simulations; valid: with one stream",
    "zipf --show score --window 1": "--window says nothing of a table of many simulations",
    "zipf --work-option columns=n": "--work-option is 'columns=n'; valid: with --work",
    "zipf --cost 1 --groupings OFF_GREEDY": "OFF_GREEDY must know the whole stream",
    "zipf --cost 1 --split odd": "split is 'odd'",
    "zipf --work unskew.operators:DistinctCount": "stream 'zipf' has no column 'id'",
    "zipf --work unskew.operators:None": "unskew.operators has no 'None'",
    "zipf --join uniform --details": "--details says nothing of a join; valid with --join: --workers, --tuples",
    "zipf --join uniform --cost 1": "--cost says nothing of a join",
    "zipf --join uniform --groupings KEY": "--groupings says nothing of a join",
    "zipf --join uniform --sources 3": "--sources says nothing of a join",
    "zipf --join uniform --sweep slack=1": "--sweep says nothing of a join",
    "zipf --join uniform --work builtins:len": "--work says nothing of a join",
    "zipf --join uniform --output out": "--output says nothing of a join",
    "zipf hot --join uniform": "--join takes one stream besides its own",
    "--join uniform": "--join takes one stream besides its own",
    "none.csv:key --join uniform": "stream is 'none.csv:key'",
    "zipf --join uniform --workers 0": "--workers is '0'",
    "zipf --write --batch 5": "--batch says nothing of a write; valid with --write: --workers, --tuples, --seed",
    "zipf hot --write": "--write takes one stream; valid: unskew simulate INPUT --write",
}


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_one_line(line):
    done = unskew("simulate", *line.split(), "--tuples", 100)
    assert (done.returncode, done.stdout) == (2, "")
    [said] = done.stderr.strip().splitlines()
    assert MISTAKES[line] in said
