"""How a hashtag of the election day becomes a key: one rule for the producers and for the topology's splitter."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

#: The key that all words about the election itself become.
ELECTION_DAY = "ElectionDay"
#: A hashtag with one of these in it is such a word. They are looked for after LETTERS and lower case.
ELECTION_WORDS = ("election", "vote", "voting", "eleic", "elecci", "secim", "sandik")
#: Turkish letters and the Latin ones that they are written as, so that Seçim and secim are one key. Greek sigmas too:
#: which of its two small letters lower case makes of Σ depends on the library.
LETTERS = ("ÇĞİÖŞÜçğıöşüΣς", "CGIOSUcgiosuσσ")
#: A hashtag with this in it was mangled by somebody's character set: it is dropped.
MANGLED = "?"


def hashtag_keys(hashtags: pa.Array) -> tuple[pa.Array, NDArray[np.bool_]]:
    """The key of each hashtag, string[k], and whether it has one, bool[k].

    Examples
    --------
    >>> keys, kept = hashtag_keys(pa.array(["MAGA", "SeçimGünü", "İstanbul", "??"]))
    >>> keys.to_pylist(), kept.tolist()
    (['maga', 'ElectionDay', 'istanbul', '??'], [True, True, True, False])

    """
    keys = hashtags
    for letter, latin in zip(*LETTERS, strict=True):
        keys = pc.call_function("replace_substring", [keys], pc.ReplaceSubstringOptions(letter, latin))
    keys = pc.call_function("utf8_lower", [keys])
    about = pc.call_function("match_substring_regex", [keys], pc.MatchSubstringOptions("|".join(ELECTION_WORDS)))
    mangled = pc.call_function("match_substring", [keys], pc.MatchSubstringOptions(MANGLED))
    folded = pc.call_function("if_else", [about, pa.scalar(ELECTION_DAY), keys])
    return folded, ~mangled.to_numpy(zero_copy_only=False)
