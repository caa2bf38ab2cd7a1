"""The file for node_exporter is always whole."""

from __future__ import annotations

import multiprocessing
import stat
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from binlog.errors import AccessError
from binlog.metrics import Family, Kind, write_textfile


def _family(count: int, value: int) -> Family:
    family = Family("binlog_things", Kind.GAUGE, "Things.")
    for number in range(count):
        family.add(value, number=str(number))
    return family


def _write(path: Path, until: int) -> None:
    for value in range(until):
        write_textfile(path, [_family(500, value)])


@pytest.mark.slow
def test_a_reader_never_sees_half_a_file(tmp_path: Path) -> None:
    path = tmp_path / "binlog.prom"
    write_textfile(path, [_family(500, 0)])
    writer = multiprocessing.get_context("fork").Process(target=_write, args=(path, 300))
    writer.start()
    read = 0
    while writer.is_alive() or not read:
        [found] = text_string_to_metric_families(path.read_text())
        assert len(found.samples) == 500
        assert len({sample.value for sample in found.samples}) == 1
        read += 1
    writer.join()
    assert writer.exitcode == 0
    assert [each.name for each in tmp_path.iterdir()] == ["binlog.prom"]


def test_everyone_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "binlog.prom"
    write_textfile(path, [_family(1, 7)])
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert path.read_text().endswith('binlog_things{number="0"} 7\n')


def test_a_folder_that_is_missing_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match="No such file or directory"):
        write_textfile(tmp_path / "none" / "binlog.prom", [])


def test_nothing_is_left_if_the_file_cannot_be_replaced(tmp_path: Path) -> None:
    (tmp_path / "binlog.prom").mkdir()
    with pytest.raises(AccessError):
        write_textfile(tmp_path / "binlog.prom", [_family(1, 7)])
    assert [each.name for each in tmp_path.iterdir()] == ["binlog.prom"]
