"""Keys of any type are encoded; equal keys hash alike, others don't; and sums by key are exact."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.grouping.plain_hashing import key_hash
from unskew.grouping import create
from unskew.grouping.keys import Keys, encode_keys, sum_by_key

keys_of_a_type = st.one_of(
    st.lists(st.one_of(st.none(), st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=40))),
    st.lists(st.one_of(st.none(), st.binary(max_size=40))),
    st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))),
)


@given(keys_of_a_type)
def test_encode(values):
    keys = encode_keys(values)
    assert len(keys) == len(values)
    assert [keys.distinct[int(code)].as_py() for code in keys.codes] == values
    assert len(set(keys.codes.tolist())) == len(keys.distinct) == len(set(values))
    for value, digest in zip(keys.distinct.to_pylist(), keys.hashes.tolist(), strict=True):
        if value is not None:
            assert digest == key_hash(value)


TEXTS = ["", "tr", "türkiye", None, "x" * 100]
BYTES = [None if text is None else text.encode() for text in TEXTS]
KINDS = {"string": TEXTS, "large_string": TEXTS, "string_view": TEXTS}
KINDS |= {"binary": BYTES, "large_binary": BYTES, "binary_view": BYTES}


@pytest.mark.parametrize("kind", KINDS)
def test_strings_and_bytes(kind):
    plain, array = encode_keys(TEXTS), pa.array(KINDS[kind] * 2, getattr(pa, kind)())
    for given_array in (array, array.slice(5), array.dictionary_encode(), pa.chunked_array([array])):
        keys = encode_keys(given_array)
        assert keys.hashes[keys.codes[:5]].tolist() == plain.hashes[plain.codes].tolist()


def test_widths_of_integers():
    for dtype in (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64):
        keys = encode_keys(np.array([1, 100, 1], dtype))
        assert keys.hashes[keys.codes].tolist() == [key_hash(1), key_hash(100), key_hash(1)]
    assert encode_keys(np.array([2**64 - 1], np.uint64)).hashes[0] == key_hash(-1)


def test_fixed_size_binary_and_numpy_bytes():
    fixed = pa.array([b"ab", b"cd"], pa.binary(2))
    assert encode_keys(fixed).hashes.tolist() == encode_keys(["ab", "cd"]).hashes.tolist()
    assert encode_keys(np.array([b"ab", b"cd"])).hashes.tolist() == encode_keys(["ab", "cd"]).hashes.tolist()


def test_null_is_its_own_key():
    keys = encode_keys(pa.array([None, "", "null", None]))
    assert keys.codes[0] == keys.codes[3]
    assert len(set(keys.hashes.tolist())) == 3
    numbers = encode_keys(pa.array([None, 0, None], pa.int64()))
    assert numbers.hashes[numbers.codes[0]] == keys.hashes[keys.codes[0]]
    assert numbers.hashes[numbers.codes[1]] == key_hash(0)


def test_dictionary_that_holds_a_value_twice():
    doubled = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2]), pa.array(["a", "b", "a"]))
    keys = encode_keys(doubled)
    assert keys.hashes[keys.codes[0]] == keys.hashes[keys.codes[2]]


def test_dictionaries_that_differ_from_chunk_to_chunk():
    chunks = [pa.array(["a", "b"]).dictionary_encode(), pa.array(["c", "a"]).dictionary_encode()]
    keys = encode_keys(pa.chunked_array(chunks))
    assert [keys.distinct[int(code)].as_py() for code in keys.codes] == ["a", "b", "c", "a"]


@pytest.mark.parametrize("values", [[1.5], [True], [["a"]], np.array([1.0])], ids=str)
def test_other_types_are_refused(values):
    with pytest.raises(TypeError, match="valid: strings, bytes, integers"):
        encode_keys(values)


def test_keys_are_read_only_and_not_encoded_again():
    keys = encode_keys(["a", "b"])
    assert encode_keys(keys) is keys
    with pytest.raises(ValueError, match="read-only"):
        keys.codes[0] = 1
    given_codes = np.array([0, 1], np.int32)
    assert not Keys(given_codes, keys.hashes, keys.distinct).codes.flags.writeable
    given_codes[0] = 1  # the caller's array stays the caller's


def test_texts():
    assert encode_keys(pa.array(["tr", None])).texts([1, 0]) == ["null", "tr"]
    assert encode_keys([b"tr", b"\xff"]).texts([0, 1]) == ["tr", "\ufffd"]
    assert encode_keys([-7]).texts([0]) == ["-7"]


def test_slice_of_an_array_with_a_large_dictionary():
    """Only the keys that occur are kept and hashed."""
    large = pa.array([f"k{i}" for i in range(10_000)]).dictionary_encode()
    keys = encode_keys(pa.concat_arrays([large, large]).slice(9_998, 4))
    assert keys.distinct.to_pylist() == ["k0", "k1", "k9998", "k9999"]
    assert keys.codes.tolist() == [2, 3, 0, 1]
    assert keys.hashes.tolist() == [key_hash(key) for key in keys.distinct.to_pylist()]
    assert len(encode_keys(large.slice(0, 0)).hashes) == 0


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(-(2**60), 2**60)), max_size=8))
def test_sums_by_key_are_exact(pairs):
    """Beyond 2^53, too, where floating point isn't; keys without a value have the sum 0."""
    codes, values = np.array([code for code, _ in pairs], np.int32), np.array([value for _, value in pairs], np.int64)
    expected = [sum(value for code, value in pairs if code == key) for key in range(6)]
    assert sum_by_key(codes, values, 6).tolist() == expected


def test_sums_of_other_integers():
    assert sum_by_key(np.array([1, 1]), np.array([200, 100], np.uint8), 2).tolist() == [0, 300]


def test_a_text_is_no_list_of_keys(subtests):
    for wrong, message in (("tr", "keys is 'tr'; valid: a list"), (b"tr", "keys is b'tr'"), ([1, "a"], "of one type")):
        for grouping in ("KEY", "SHUFFLE") if isinstance(wrong, str | bytes) else ("KEY",):
            with subtests.test(wrong, grouping=grouping), pytest.raises(TypeError, match=message):
                create(grouping, 4).route(wrong)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (None, "keys is None; valid: a list or an array of keys"),
        ((each for each in "ab"), "keys is <generator object .*; valid: a list or an array of keys"),
        (np.array(5), "valid: a list or an array of keys"),
        (bytearray(b"tr"), "keys is bytearray"),
        ([2**63], "keys has an integer that int64 can't hold; valid: text, or an array of uint64"),
        (["\ud800"], r"keys has '\\ud800', which isn't UTF-8; valid: text without surrogates"),
        (pa.table({"a": [1]}), "keys of one type are needed: Could not convert"),
    ],
)
def test_what_is_no_array_of_keys_is_named_in_one_line(wrong, says):
    with pytest.raises(TypeError, match=says) as raised:
        create("KEY", 4).route(wrong)
    assert "\n" not in str(raised.value)
