"""Works by name, with options that are texts."""

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from unskew.apps.operators.loader import import_operator
from unskew.errors import UsageError
from unskew.operators import (
    Distinct,
    DistinctCount,
    Histogram,
    KeyedOperator,
    PerKey,
    Quantiles,
    Sessions,
    Statistics,
    TopK,
)

COUNT = PerKey(lambda key, tuples, state: ([], {"n": 1}), state=pa.schema([("n", pa.int64())]), results=pa.schema([]))
PLAIN = 3


class Mine(Sessions):
    def __init__(self, gap: int, *, loud: bool = False, name: str | None = None) -> None:
        super().__init__(gap)
        self.loud, self.name = loud, name


def longer(gap: float = 1.0) -> KeyedOperator:
    return Sessions(2 * gap)


HERE = __name__


def test_options_have_the_types_of_the_parameters():
    assert import_operator("unskew.operators:Sessions", {"gap": "1.5"}).gap_ms == 1500
    work = import_operator("unskew.operators:Quantiles", {"at": "0.5, 0.99", "error": "0.1"})
    assert isinstance(work, Quantiles)
    assert work.at == (0.5, 0.99)
    work = import_operator("unskew.operators:Distinct", {"id": "offset", "kind": "int64"})
    assert isinstance(work, Distinct)
    assert work.columns == ("offset",)
    work = import_operator(f"{HERE}:Mine", {"gap": "2", "loud": "true", "name": "x"})
    assert (work.gap_ms, work.loud, work.name) == (2000, True, "x")


def test_a_function_or_an_object():
    assert import_operator(f"{HERE}:longer", {"gap": "3"}).gap_ms == 6000
    assert import_operator(f"{HERE}:COUNT") is COUNT


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        ("Sessions", {}, "the work is 'Sessions'; valid: MODULE:NAME, such as unskew.operators:Sessions"),
        (".here:Work", {}, "the work is '.here:Work'; valid: MODULE:NAME, such as unskew.operators:Sessions"),
        ("nowhere:Work", {}, "the work 'nowhere:Work' can't be loaded (No module named 'nowhere'; looked in "),
        (
            "unskew.operators:Session",
            {},
            "unskew.operators has no 'Session'; valid: Distinct, DistinctCount, Enriched, ",
        ),
        ("unskew.operators:Sessions", {"gap": "soon"}, "unskew.operators:Sessions: gap is 'soon'; valid: a duration"),
        ("unskew.operators:Sessions", {"gaps": "1"}, "unskew.operators:Sessions has no option 'gaps'; did you mean"),
        ("unskew.operators:TopK", {"k": "3.5"}, "k is '3.5'; valid: an integer"),
        ("unskew.operators:KeyedOperator", {}, "unskew.operators:KeyedOperator"),
        (f"{HERE}:Mine", {}, f"{HERE}:Mine needs the option 'gap': give gap=VALUE"),
        (f"{HERE}:Mine", {"gap": "1", "loud": "very"}, "loud is 'very'; valid: true or false"),
        (
            f"{HERE}:PLAIN",
            {},
            f"{HERE}:PLAIN is int; valid: a class of unskew.operators.KeyedOperator's, or one's object",
        ),
        (f"{HERE}:dict", {}, f"{HERE} has no 'dict'; valid: "),
        (f"{HERE}:COUNT", {"n": "1"}, f"{HERE}:COUNT is made already and has no option 'n'; valid: none"),
        (
            "builtins:dict",
            {},
            "builtins:dict makes dict; valid: an object of a class of unskew.operators.KeyedOperator's",
        ),
    ],
)
def test_mistakes_are_one_line(path, options, message):
    with pytest.raises(UsageError) as raised:
        import_operator(path, options)
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Statistics(when="never"), "when is 'never'; valid: change, end"),
        (lambda: DistinctCount(log2_registers=3), "log2_registers is 3; valid: an integer of at least 4, at most 16"),
        *((lambda gap=gap: Sessions(gap), f"gap is {gap!r}; valid: ") for gap in (0, -1, float("nan"), "soon")),
        (lambda: Distinct(kind="text"), "kind is 'text'; valid: string, int64, binary"),
        (lambda: Distinct(kind=["string"]), "kind is ['string']; valid: string, int64, binary"),
        (lambda: TopK(k=0), "k is 0; valid: an integer of at least 1"),
        (lambda: TopK(k=5, counters=3), "counters is 3; valid: an integer of at least 5"),
        (lambda: Histogram(bins=1), "bins is 1; valid: "),
    ],
)
def test_a_parameter_out_of_range_is_named(make, message):
    with pytest.raises(UsageError) as raised:
        make()
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)


def test_a_module_with_a_mistake(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "unfinished_work.py").write_text("def make(:\n")
    with pytest.raises(UsageError, match=r"can't be loaded \(.*unfinished_work\.py, line 1\)"):
        import_operator("unfinished_work:make")


def test_types_that_are_there_for_type_checkers_alone(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "typed_work.py").write_text(
        "from unskew.operators import Sessions\n"
        "def make(gap: 'Gap' = 3) -> Sessions:\n"
        "    return Sessions(gap)\n"
    )  # fmt: skip
    assert import_operator("typed_work:make").gap_ms == 3000
    with pytest.raises(UsageError, match=r"typed_work:make: the type of an option can't be found \(.*'Gap'"):
        import_operator("typed_work:make", {"gap": "4"})


def test_what_every_python_has_does_not_travel():
    with pytest.raises(UsageError):
        import_operator("builtins:dict")
    assert "builtins" not in cloudpickle.list_registry_pickle_by_value()
