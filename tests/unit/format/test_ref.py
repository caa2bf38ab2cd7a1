from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog import Ref


@given(st.integers(1, 2**32 - 1), st.integers(0, 2**63 - 1))
def test_a_ref_reads_back_from_its_text(number: int, offset: int) -> None:
    assert Ref.parse(str(Ref(number, offset))) == Ref(number, offset)


def test_refs_are_ordered_as_the_log_is_and_hashable() -> None:
    assert Ref(1, 900) < Ref(2, 256) < Ref(2, 300)
    assert {Ref(1, 256): "a"}[Ref(1, 256)] == "a"
    assert str(Ref(1, 256)) == "1:256"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "1:",
        ":1",
        "0:256",
        "1:-1",
        " 1:256",
        "1:256\n",
        "1:2:3",
        "x:y",
        "99999999999:1",
        "1:" + "9" * 19,
        "١:٢",
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="ref"):
        Ref.parse(text)
