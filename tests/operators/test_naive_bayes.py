"""NAIVE_BAYES against counters in a dict."""

import math
from collections import Counter, defaultdict

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tests.operators.driver import Batch, Engine, Tuple, parts, streams, whole
from unskew.apps.operators.naive_bayes import PRIOR, classify_documents
from unskew.operators import NaiveBayes, Now

COLUMNS = {"class": pa.string(), "document": pa.string()}
CLASSES = ("ham", "spam", "")


def plain(batches, *, split):
    """(Word, document, class) → the last count that was published; documents are None where the model is."""
    model, questions, published = defaultdict(Counter), set(), {}
    for at, batch in enumerate(batches):
        for each in batch.tuples:
            if each.values["class"] is None:
                questions.add((each.key, each.values["document"]))
            else:
                model[each.key][each.values["class"]] += 1
        if not split or batch.merged or at == len(batches) - 1:
            for word, document in questions:
                for name, count in (model[word] or {None: 0}).items():
                    published[word, document, name] = count
            questions.clear()
    return published | {(word, None, name): count for word, counts in model.items() for name, count in counts.items()}


@given(batches=streams(**{"class": st.none() | st.sampled_from(CLASSES), "document": st.sampled_from("DEF")}))
def test_answers_are_those_of_the_model(batches):
    for run, split in ((whole, False), (parts, True)):
        final = run(NaiveBayes(), COLUMNS, batches).final()
        assert {address: row["count"] for address, row in final.items()} == plain(batches, split=split)


def test_a_word_that_was_only_asked_is_forgotten():
    engine = Engine(NaiveBayes(), COLUMNS)
    engine.batch(Batch([Tuple("word", 0, 0, {"document": "D"})], Now(0, 0)))
    assert engine.published == [("word", {"document": "D", "class": None, "count": 0})]
    assert not engine.states


def documents(*texts):
    """Tuples of documents: (text, class or None to ask, name)."""
    return [
        Tuple(word, 0, i % 3, {"class": label, "document": name})
        for text, label, name in texts
        for i, word in enumerate([PRIOR, *sorted(set(text.split()))])
    ]


def test_a_mail_is_classified():
    learned = [("win a prize", "spam", "1"), ("win a win", "spam", "2"), ("lunch at noon", "ham", "3")]
    questions = [("win at noon", None, "4"), ("a prize", None, "5"), ("unheard", None, "6")]
    batches = [Batch(documents(*learned), Now(0, 0)), Batch(documents(*questions), Now(0, 0))]
    for run in (whole, parts):
        answers = defaultdict(lambda: defaultdict(dict))
        for (word, document, name), row in run(NaiveBayes(), COLUMNS, batches).final().items():
            if document is not None:
                answers[document][word][name] = row["count"]
        assert classify_documents(answers) == {"4": "ham", "5": "spam", "6": "spam"}
        # By hand, document 4: words at, noon, win; spam 2 documents of 3, ham 1.
        spam = math.log(2) + math.log(1 / 4 * 1 / 4 * 3 / 4)
        ham = math.log(1) + math.log(2 / 3 * 2 / 3 * 1 / 3)
        assert ham > spam


def test_nothing_is_known_before_training():
    assert classify_documents({"mail": {PRIOR: {None: 0}, "win": {None: 0}}}) == {"mail": None}
