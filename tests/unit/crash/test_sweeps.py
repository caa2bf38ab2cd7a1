"""In which order the crash harness takes its cases."""

from __future__ import annotations

from stress.crash.sweeps import spread


def test_one_of_each_kind_comes_before_the_second_of_any() -> None:
    assert spread(["a1", "a2", "b1", "a3", "c1", "b2"], lambda case: case[0]) == ["a1", "b1", "c1", "a2", "b2", "a3"]
    assert spread([], str) == []
