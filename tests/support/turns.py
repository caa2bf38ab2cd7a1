"""The parameters of a test, of which each run of `make test` takes a quarter (tests/conftest.py)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from _pytest.mark.structures import ParameterSet


def in_turn(values: Iterable[object], first: int = 0) -> list[ParameterSet]:
    """Return the values for `pytest.mark.parametrize`: one each for the turns first, first + 1, and so on."""
    return [pytest.param(value, marks=pytest.mark.turn(turn)) for turn, value in enumerate(values, first)]
