from __future__ import annotations

import pytest

from binlog.format.names import log_file_name, log_file_number, prepared_file_name, prepared_file_number


def test_names_read_back() -> None:
    assert log_file_name(1) == "00000001.dat"
    assert log_file_number("00000042.dat") == 42
    name = prepared_file_name(7)
    assert name.startswith(".00000007.dat.")
    assert prepared_file_number(name) == 7
    assert prepared_file_name(7) != name


@pytest.mark.parametrize(
    "name",
    ["1.dat", "00000000.dat", "000000001.dat", "00000001.dat.zst", ".00000001.dat", "0000000a.dat", "00000001.dat\n"],
)
def test_other_names_are_not_log_files(name: str) -> None:
    assert log_file_number(name) is None
    assert prepared_file_number(name) is None
