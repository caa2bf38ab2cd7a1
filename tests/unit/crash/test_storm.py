"""The processes of a storm."""

from __future__ import annotations

from stress.crash.failure_modes.storm import number_of


def test_a_process_that_replaces_one_has_its_role_and_another_number() -> None:
    numbers = [[number_of(index, deaths, 6) for deaths in range(20)] for index in range(6)]
    assert [{number % 6 for number in each} for each in numbers] == [{1}, {2}, {3}, {4}, {5}, {0}]
    assert len({number for each in numbers for number in each}) == 120
