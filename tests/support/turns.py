"""Tests that take turns: each run of `make test` has those of one turn (tests/conftest.py)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from _pytest.mark.structures import ParameterSet

TURNS = 4


def in_turn(values: Iterable[object]) -> list[ParameterSet]:
    """Return the values for `pytest.mark.parametrize`, divided among the turns, so that each turn has at least one.

    A value has one turn, or several if there are fewer values than turns.
    """
    given = list(values)
    turns = range(TURNS)
    return [
        pytest.param(value, marks=pytest.mark.turn(*turns[place % TURNS :: len(given)]))
        for place, value in enumerate(given)
    ]
