"""The metrics of a log agree with its files, and with what a count of its records finds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import binlog
from binlog.log.append.writable_file import WritableFile
from binlog.metrics import Kind, log_families
from tests.support.logs import read_all
from tests.support.watched_log import make_watched_log


def _values(*paths: Path) -> dict[str, dict[tuple[str, ...], float]]:
    """Return the values of each family by the values of their labels, without the log."""
    return {
        family.name: {
            tuple(text for key, text in labels.items() if key != "log"): value for labels, value in family.samples
        }
        for family in log_families(paths)
    }


def test_the_values_are_those_of_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    make_watched_log(log)
    values, stat = _values(log), binlog.stat(log)
    assert values["binlog_up"] == {(): 1}
    assert values["binlog_records"] == values["binlog_stored_records"] == {(): len(read_all(log))} == {(): 30}
    assert values["binlog_files"] == {("open",): 1, ("closed",): 1, ("archived",): 1}
    of_files = sum(512 * os.stat(path).st_blocks for path in log.glob("*.dat"))
    of_archives = sum(512 * os.stat(path).st_blocks for path in log.glob("*.zst"))
    assert values["binlog_disk_bytes"][("log",)] == of_files
    assert values["binlog_disk_bytes"][("archive",)] == of_archives
    assert sum(values["binlog_disk_bytes"].values()) == stat.disk_bytes
    assert values["binlog_used_bytes"] == {(): stat.used_bytes}
    assert (values["binlog_poisoned"], values["binlog_foreign_writers"]) == ({(): 0}, {(): 0})
    with binlog.Reader(log) as reader:
        last = list(reader)[-1]
    appended = values["binlog_last_append_timestamp_seconds"][()]
    assert abs(appended - last.time.timestamp()) < 60
    assert values["binlog_oldest_file_timestamp_seconds"][()] <= appended


def test_the_values_are_those_of_followers_groups_and_seal(tmp_path: Path) -> None:
    log = tmp_path / "log"
    refs = make_watched_log(log)
    values = _values(log)
    assert values["binlog_follower_up"] == {("reader.position",): 1, ("gone.position",): 0}
    assert values["binlog_follower_lag_records"] == {("reader.position",): 20}
    assert values["binlog_follower_lag_bytes"] == {("reader.position",): binlog.lag(log, refs[10]).bytes}
    assert values["binlog_follower_lag_seconds"][("reader.position",)] > 0
    assert values["binlog_group_lag_messages"] == {("mail",): 27}
    assert values["binlog_group_members"] == {("mail", "alive"): 0, ("mail", "dead"): 0}
    assert values["binlog_group_items"][("mail", "delayed")] == 1
    assert values["binlog_group_done"] == {("mail",): 2}
    assert values["binlog_group_dead_letters"] == {("mail",): 1}
    assert values["binlog_group_deliveries"] == {("mail",): 4}
    assert values["binlog_group_failed_deliveries"][("mail", "failed")] == 2
    assert (values["binlog_seal_records"], values["binlog_seal_unsealed_records"]) == ({(): 25}, {(): 5})
    assert values["binlog_seal_cut"] == {(): 0}
    [(anchor, size)] = values["binlog_seal_anchor_records"].items()
    assert (anchor[0].startswith("dir:"), size) == (True, 25)


def test_a_log_that_is_named_twice_has_one_value(tmp_path: Path) -> None:
    found = log_families([str(tmp_path), tmp_path])
    for family in found:
        labels = [tuple(sample.labels.items()) for sample in family.samples]
        assert len(labels) == len(set(labels)), family.name


def test_a_log_that_cannot_be_read_has_only_one_value(tmp_path: Path) -> None:
    log, missing = tmp_path / "log", tmp_path / "none"
    make_watched_log(log)
    (log / "00000003.dat").write_bytes(b"no header")
    families = log_families([log, missing])
    samples = [(family.name, value) for family in families for labels, value in family.samples if "log" in labels]
    assert samples == [("binlog_up", 0), ("binlog_up", 0)]


def test_a_group_or_a_seal_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    log = tmp_path / "log"
    make_watched_log(log)
    (log / "seal" / "state").write_bytes(b"nonsense")
    [group] = (log / "groups").glob("*/*.dat")
    group.write_bytes(b"nonsense")
    values = _values(log)
    assert values["binlog_up"] == {(): 1}
    assert (values["binlog_group_up"], values["binlog_seal_up"]) == ({("mail",): 0}, {(): 0})
    assert (values["binlog_group_lag_messages"], values["binlog_seal_records"]) == ({}, {})


def test_a_log_that_ends_before_its_seal_is_cut(tmp_path: Path) -> None:
    log = tmp_path / "log"
    make_watched_log(log)
    for path in log.glob("00000003.*"):
        path.unlink()
    values = _values(log)
    assert values["binlog_seal_cut"] == {(): 1}
    assert values["binlog_seal_unsealed_records"] == {}


def test_a_poisoned_log_says_so_until_a_writer_reopens_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with binlog.Writer(log) as writer:
        writer.append(b"one")
        cause = binlog.PoisonedError("a sync failed")
        cause.__cause__ = OSError(5, "Input/output error")
        writer._open_session().run(lambda file, header: WritableFile.mark_poisoned(file, cause))
        with pytest.raises(binlog.PoisonedError):
            writer.append(b"two")
    assert _values(log)["binlog_poisoned"] == {(): 1}
    binlog.Writer(log).close()
    assert _values(log)["binlog_poisoned"] == {(): 0}
    assert _values(log)["binlog_recoveries"] == {(): 1}


def test_a_counter_ends_in_total_and_a_unit_is_in_the_name() -> None:
    for family in log_families([]):
        assert family.sample_name.endswith("_total") == (family.kind is Kind.COUNTER)
        assert family.name.endswith(family.unit)
