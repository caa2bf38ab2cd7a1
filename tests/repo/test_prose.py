"""Comments, docstrings, messages and documents use plain words: see tests/support/prose.py for the others."""

from __future__ import annotations

from functools import cache

import pytest

from tests.support.prose import RATES, Text, files, offences, rates, texts

# Reading all files takes seconds.
_in_one_process = pytest.mark.xdist_group("prose")
_SELF = "tests/support/prose.py"


@cache
def _found() -> tuple[Text, ...]:
    return tuple(text for path in files() for text in texts(path) if text.path != _SELF)


@pytest.mark.slow
@_in_one_process
def test_no_text_uses_a_word_that_has_a_plainer_one() -> None:
    found = [f"{text.path}:{text.line}: {word!r}: write {instead}" for text, word, instead in offences(_found())]
    assert found == []


@pytest.mark.slow
@_in_one_process
@pytest.mark.parametrize("name", RATES)
def test_conditions_and_actors_are_named(name: str) -> None:
    """Conditions start with `if`; sentences have a noun in place of `what` and `who`."""
    _, least, most = RATES[name]
    rate = rates(_found())[name]
    assert least is None or rate >= least
    assert most is None or rate <= most


@pytest.mark.parametrize(
    "sentence",
    [
        "Whoever waits is woken.",
        "Nobody writes there.",
        "The record lies behind the header.",
        "It is written anew.",
        "The reader goes on with the next file.",
        "The caller is told so.",
        "64 MiB unless told.",
        "So many bytes follow.",
        "Recovery settles the file.",
        "If the file is there, it counts.",
        "The reader looks at the header.",
    ],
)
def test_an_odd_word_is_found(sentence: str) -> None:
    assert list(offences([Text("a.py", 1, "comment", sentence)]))
    assert not list(offences([Text("a.py", 1, "comment", "The reader looks up the record in the index.")]))


def test_rates_count_comments_and_docstrings_alone() -> None:
    found = [Text("a.py", 1, "docstring", "if where what who"), Text("a.md", 1, "document", "if if if")]
    assert rates(found) == {"if": 250.0, "where": 250.0, "what or who": 500.0}
