"""Faults of a log, and of its seal, that were once answered wrongly."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from stress.crash.failure_modes.faults import Case
from tests.support.crash_harness import crash


def _holds(
    tmp_path: Path,
    scenario: str,
    fault: str,
    first: int,
    *,
    permanent: bool = True,
    part: str = "faults",
    seed: int = 0,
) -> None:
    case = Case(part, scenario, "", fault, permanent, seed, first)
    (tmp_path / "part.json").write_text(json.dumps({"part": part, "case": asdict(case)}))
    done = crash("--replay", tmp_path)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, 2])
def test_a_short_read_of_the_header_was_an_internal_error(tmp_path: Path, first: int) -> None:
    _holds(tmp_path, "append", "READ short", first)


@pytest.mark.slow
def test_a_header_that_could_not_be_read_was_an_internal_error(tmp_path: Path) -> None:
    _holds(tmp_path, "grow", "READ EIO", 1)


@pytest.mark.slow
@pytest.mark.parametrize("first", [4, 5])
def test_a_lock_that_could_not_be_had_was_an_internal_error(tmp_path: Path, first: int) -> None:
    _holds(tmp_path, "append_many", "LOCK ENOLCK", first, permanent=False)


@pytest.mark.slow
@pytest.mark.parametrize("first", [1, 2])
def test_a_disk_that_took_no_mark_of_its_failure_was_an_internal_error(tmp_path: Path, first: int) -> None:
    """Other processes knew of the failure from shared memory, and did not report it to their callers."""
    _holds(tmp_path, "append_many", "WRITE+DATA_SYNC+SYNC EIO", first)


@pytest.mark.slow
@pytest.mark.parametrize("first", [6, 7])
def test_records_staged_when_a_disk_failed_were_written_twice(tmp_path: Path, first: int) -> None:
    """They stayed staged for the next file, and their commit, which no mark forbade, was rolled forward."""
    _holds(tmp_path, "stage", "WRITE+DATA_SYNC+SYNC EIO", first)


@pytest.mark.slow
@pytest.mark.parametrize("first", [8, 18])
def test_a_cutover_on_a_disk_that_took_no_mark_of_its_failure_reported_nothing(tmp_path: Path, first: int) -> None:
    _holds(tmp_path, "cutover", "WRITE+DATA_SYNC+SYNC EIO", first)


@pytest.mark.slow
@pytest.mark.parametrize("first", [16, 17, 18])
def test_an_append_after_an_ingest_that_could_not_be_recorded_was_an_internal_error(tmp_path: Path, first: int) -> None:
    _holds(tmp_path, "ingest", "WRITE ENOSPC", first)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "first"), [("OPEN ENOSPC", 24), ("LINK ENOSPC", 4), ("UNLINK EIO", 0), ("UNLINK EIO", 5)]
)
def test_external_files_with_an_unknown_outcome_join_the_log(tmp_path: Path, fault: str, first: int) -> None:
    _holds(tmp_path, "ingest", fault, first)


@pytest.mark.slow
def test_a_bell_that_could_not_be_read_was_not_one_of_the_errors_of_binlog(tmp_path: Path) -> None:
    _holds(tmp_path, "files", "READ EIO", 31, part="seal-faults", seed=921728095)
