"""Recovery on real files: each row of the table acted out, with a death at each of its calls.

A file is left as the row describes, and then a writer opens the log.  Another boot is another boot id in the header.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import binlog
from binlog import Background, Mode, Ref, Writer
from binlog.errors import CorruptError, PoisonedError
from binlog.format.checksums import crc32c
from binlog.format.log_header import CommitSlot, Flag, LogHeader, parse_log_header
from binlog.format.record import frame
from tests.support.children import Child
from tests.support.logs import jpos_file, name_next_file_only, read_all
from tests.support.preloaded import kill_at_each_call
from tests.support.turns import in_turn

ANOTHER_BOOT = bytes(range(100, 116))
KEPT = [b"one", b"two" * 100, b"three"]
SEEN = [b"seen, and not synced"]
PENDING = [b"in a commit that was begun"]
FOREIGN = [b"of another program", b"of another program, too"]


def _path(log: Path, number: int = 1) -> Path:
    return log / f"{number:08d}.dat"


def _header(log: Path, number: int = 1) -> LogHeader:
    data = _path(log, number).read_bytes()[:256]
    return parse_log_header(data, path="", number=number)


def _write(log: Path, data: bytes, offset: int, number: int = 1) -> None:
    with _path(log, number).open("r+b") as file:
        file.seek(offset)
        file.write(data)


def _change(log: Path, number: int = 1, **values: object) -> None:
    """Change values in the header, and compute its CRCs again."""
    _write(log, _header(log, number)._replace(**values).pack(), 0, number)  # type: ignore[arg-type]


def _framed(records: list[bytes]) -> bytes:
    return b"".join(bytes(frame(record)) for record in records)


def _kept(log: Path) -> None:
    with Writer(log) as writer:
        writer.append_many(KEPT[:2])
        writer.append(KEPT[2])


def _seen(log: Path) -> None:
    _kept(log)
    # In a process that ends without closing, because a close would sync it.
    never = Background(sync_seconds=600, flush_seconds=600)
    Child(lambda: Writer(log, mode=Mode.FLUSH, background=never).append(SEEN[0])).join()
    assert _header(log).confirmed_end < _header(log).tail


def _pending(log: Path, *, holds: bool = True) -> None:
    """Leave a pending commit: its bytes and its slot are in the file."""
    header = _header(log)
    data = _framed(PENDING)
    _write(log, data, header.tail)
    group = _path(log).read_bytes()[header.confirmed_end : header.tail + len(data)]
    slot = CommitSlot(
        counter=header.confirmed_counter + 1, start=header.confirmed_end, end=header.tail + len(data),
        record_count=header.record_count + 1, time_ns=2**62, group_crc=crc32c(group), epoch=header.epoch, nonce=7,
    )  # fmt: skip
    _write(log, header.with_slot(slot).pack(), 0)
    if not holds:
        _write(log, bytes(len(data)), header.tail)


def _foreign(log: Path, records: list[bytes] = FOREIGN, *, lost: int = 0, number: int = 1) -> None:
    """Append as another program does: records, and the tail; `lost` bytes at the end did not reach the disk."""
    tail, data = _header(log, number).tail, _framed(records)
    _write(log, data[: len(data) - lost] + bytes(lost), tail, number)
    _write(log, (tail + len(data)).to_bytes(8, "big"), 8, number)


def _other_boot(log: Path) -> None:
    for path in log.glob("*.dat"):
        if path.read_bytes()[24:25] != b"\0":
            _change(log, int(path.stem), boot_id=ANOTHER_BOOT)


def _damage_live_block(log: Path) -> None:
    data = _path(log).read_bytes()
    _write(log, bytes([data[72] ^ 0xFF]), 72)


# ---- the rows: how each file came about ----


def _row_1(log: Path) -> None:
    log.mkdir()
    jpos_file(log, KEPT)


def _row_3(log: Path) -> None:
    _kept(log)
    with Writer(log) as writer:
        writer.cutover()
    tail = _header(log).tail
    _write(log, bytes(5000), tail)  # prepared space, not released


def _row_4(log: Path) -> None:
    _row_3(log)
    _foreign(log)


def _row_4_torn(log: Path) -> None:
    _row_3(log)
    _foreign(log, lost=len(_framed(FOREIGN[1:])))
    _write(log, b"\xff\xff\xff\xff", _header(log).published_tail + len(_framed(FOREIGN[:1])))
    _other_boot(log)


def _row_5(log: Path) -> None:
    _seen(log)
    _pending(log)
    _change(log, flags=_header(log).flags | Flag.POISON, poison_errno=5)


def _row_6(log: Path) -> None:
    _row_5(log)
    _other_boot(log)


def _row_7(log: Path) -> None:
    _seen(log)
    _foreign(log)


def _row_7_over_pending(log: Path) -> None:
    _seen(log)
    _pending(log)
    _foreign(log, [PENDING[0][::-1]])  # of the same length: the tail is the end of the pending commit


def _row_7_other_boot(log: Path) -> None:
    _row_7(log)
    _other_boot(log)


def _row_7_torn(log: Path) -> None:
    _kept(log)
    _foreign(log)
    _write(log, b"\xff", _header(log).published_tail + len(_framed(FOREIGN[:1])))
    _other_boot(log)


def _row_8(log: Path) -> None:
    _seen(log)
    _pending(log)


def _row_8_other_boot(log: Path) -> None:
    _row_8(log)
    _other_boot(log)


def _row_8_tail_alone(log: Path) -> None:
    _row_8_other_boot(log)
    pending = _header(log).pending
    assert pending is not None
    _write(log, pending.end.to_bytes(8, "big"), 8)


def _row_9(log: Path) -> None:
    _seen(log)
    _pending(log, holds=False)


def _row_9_other_boot(log: Path) -> None:
    _kept(log)
    _pending(log, holds=False)
    _other_boot(log)


def _row_10_other_boot(log: Path) -> None:
    _seen(log)
    _other_boot(log)


def _row_11(log: Path) -> None:
    _seen(log)
    _write(log, b"X", _header(log).confirmed_end + 6)


def _row_11_other_boot(log: Path) -> None:
    _row_11(log)
    _other_boot(log)


def _row_12(log: Path) -> None:
    _kept(log)
    _write(log, (_header(log).tail - 9).to_bytes(8, "big"), 8)


def _row_13(log: Path) -> None:
    _kept(log)
    _damage_live_block(log)


def _row_13_pending(log: Path) -> None:
    _kept(log)
    _pending(log)
    _damage_live_block(log)


def _row_13_pending_fails(log: Path) -> None:
    _kept(log)
    _pending(log, holds=False)
    _damage_live_block(log)


def _row_13_tail_leads_nowhere(log: Path) -> None:
    _kept(log)
    _damage_live_block(log)
    _write(log, (_header(log).tail + 77).to_bytes(8, "big"), 8)


def _row_15(log: Path) -> None:
    _kept(log)
    name_next_file_only(log, log.with_name("aside"))
    shutil.rmtree(log.with_name("aside"))


@dataclass(frozen=True)
class Row:
    """The state of a file, and of the log after its recovery.

    open_number: the file that takes the next record.  aside: the lengths of the quarantined ranges.
    late: the number of `records` that another program added after the close.
    """

    left: Callable[[Path], None]
    records: list[bytes]
    open_number: int = 1
    aside: tuple[int, ...] = ()
    late: bool = False


ROWS = {
    "1": Row(_row_1, KEPT),
    "3": Row(_row_3, KEPT, open_number=2),
    "4": Row(_row_4, KEPT + FOREIGN, open_number=2, late=True),
    "4 torn": Row(_row_4_torn, KEPT + FOREIGN[:1], open_number=2, late=True, aside=(len(_framed(FOREIGN[1:])),)),
    "5": Row(_row_5, KEPT, open_number=2, aside=(len(_framed(SEEN + PENDING)),)),
    "6": Row(_row_6, KEPT + SEEN + PENDING),
    "7": Row(_row_7, KEPT + SEEN + FOREIGN),
    "7 over pending": Row(_row_7_over_pending, KEPT + SEEN + [PENDING[0][::-1]]),
    "7 other boot": Row(_row_7_other_boot, KEPT + SEEN + FOREIGN),
    "7 torn": Row(_row_7_torn, KEPT + FOREIGN[:1], open_number=2, aside=(len(_framed(FOREIGN[1:])),)),
    "8": Row(_row_8, KEPT + SEEN + PENDING),
    "8 other boot": Row(_row_8_other_boot, KEPT + SEEN + PENDING),
    "8 tail alone": Row(_row_8_tail_alone, KEPT + SEEN + PENDING),
    "9": Row(_row_9, KEPT + SEEN),
    "9 other boot": Row(_row_9_other_boot, KEPT),
    "10": Row(_seen, KEPT + SEEN),
    "10 other boot": Row(_row_10_other_boot, KEPT + SEEN),
    "11": Row(_row_11, KEPT, open_number=2, aside=(len(_framed(SEEN)),)),
    "11 other boot": Row(_row_11_other_boot, KEPT, open_number=2, aside=(len(_framed(SEEN)),)),
    "12": Row(_row_12, KEPT),
    "13": Row(_row_13, KEPT),
    "13 pending": Row(_row_13_pending, KEPT + PENDING),
    "13 pending fails": Row(_row_13_pending_fails, KEPT),
    "13 tail leads nowhere": Row(_row_13_tail_leads_nowhere, KEPT, open_number=2, aside=(77,)),
    "15": Row(_row_15, KEPT, open_number=2),
}
OTHER_BOOT = ("4 torn", "6", "7 other boot", "7 torn", "8 other boot", "8 tail alone", "9 other boot", "10 other boot")


def _open(log: Path) -> None:
    Writer(log).close()


def _files(log: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(log.iterdir())}


def _problems(log: Path, row: Row) -> list[str]:
    return [problem.rule for problem in binlog.check(log) if not (row.late and problem.rule == "late")]


def _hold(log: Path, row: Row, left: dict[str, bytes]) -> None:
    """Check the log after a writer has opened it."""
    assert read_all(log) == row.records
    assert _problems(log, row) == []
    aside = sorted(log.glob("*.damaged"))
    assert tuple(path.stat().st_size for path in aside) == row.aside
    for path in aside:
        start, end = (int(number) for number in path.name.split(".")[2].split("-"))
        assert path.read_bytes() == left["00000001.dat"][start:end]
    assert max(int(path.stem) for path in log.glob("*.dat")) == row.open_number
    files = _files(log)
    _open(log)
    assert _files(log) == files, "a second open changes something"


def _go_on(log: Path, row: Row) -> None:
    with Writer(log) as writer:
        assert writer.append(b"after").number == row.open_number
    assert read_all(log) == [*row.records, b"after"]
    _open(log)
    assert read_all(log) == [*row.records, b"after"]
    assert _problems(log, row) == []


@pytest.mark.parametrize("name", ROWS)
def test_each_row_is_recovered_by_the_writer_that_opens_the_log(tmp_path: Path, name: str) -> None:
    row, log = ROWS[name], tmp_path / "log"
    row.left(log)
    left = _files(log)
    _open(log)
    _hold(log, row, left)
    _go_on(log, row)


@pytest.mark.parametrize("name", OTHER_BOOT)
def test_a_reader_sees_the_records_that_recovery_will_keep(tmp_path: Path, name: str) -> None:
    row, log = ROWS[name], tmp_path / "log"
    row.left(log)
    files = _files(log)
    assert read_all(log) == row.records
    assert _problems(log, row) == (["poison"] if name == "6" else [])
    assert _files(log) == files


def test_bytes_quarantined_by_a_dead_recovery_stay_next_to_the_new_ones(tmp_path: Path) -> None:
    """Another program may have appended meanwhile, over bytes that were copied."""
    log = tmp_path / "log"
    _row_5(log)
    _open(shutil.copytree(log, tmp_path / "copy"))
    (aside,) = (tmp_path / "copy").glob("*.damaged")
    (log / aside.name).write_bytes(b"older")
    _open(log)
    first, second = sorted(log.glob("*.damaged"))
    assert first.name == aside.name
    assert (first.read_bytes(), second.read_bytes()) == (b"older", aside.read_bytes())


@pytest.mark.parametrize("other_boot", [False, True])
def test_a_tail_older_than_its_live_block_is_taken_from_a_slot(tmp_path: Path, other_boot: bool) -> None:
    """Row 12, if the bytes are invalid too: the header's lines reached the disk one by one."""
    log = tmp_path / "log"
    _seen(log)
    header = _header(log)
    _write(log, bytes(header.tail - header.confirmed_end), header.confirmed_end)
    _write(log, header.confirmed_end.to_bytes(8, "big"), 8)
    if other_boot:
        _other_boot(log)
        _write(log, header.confirmed_end.to_bytes(8, "big"), 8)
    assert read_all(log) == KEPT
    assert [problem.rule for problem in binlog.check(log)] == ["tail"]
    _open(log)
    assert binlog.check(log) == []
    _go_on(log, Row(_seen, KEPT))


@pytest.mark.slow
@pytest.mark.parametrize("name", in_turn(ROWS))
def test_a_writer_killed_at_each_call_of_a_recovery_leaves_what_the_next_one_recovers(
    in_memory: Path, name: str, figure: Callable[[str], None]
) -> None:
    row, start, log = ROWS[name], in_memory / "start", in_memory / "log"
    row.left(start)
    left = _files(start)
    kills = 0
    for run in kill_at_each_call(_open, start, log, step=2):
        _open(log)
        _hold(log, row, left)
        if kills % 4 == 0:
            _go_on(log, row)
        kills += run.killed
    assert kills > 5
    figure(f"kill sweep of recovery, row {name}: {kills} kills")


def test_row_2_a_damaged_identity_is_refused_and_the_file_is_unchanged(tmp_path: Path) -> None:
    log = tmp_path / "log"
    _kept(log)
    _write(log, b"X", 40)
    _is_refused(log, "identity-crc")


def test_row_14_lost_acknowledged_records_are_refused_and_the_file_is_unchanged(tmp_path: Path) -> None:
    log = tmp_path / "log"
    _kept(log)
    _other_boot(log)
    _write(log, b"X", _header(log).tail - 1)
    _is_refused(log, "recovery-14")


def test_row_15_a_wrong_next_file_is_refused_and_unchanged(tmp_path: Path) -> None:
    log = tmp_path / "log"
    _row_15(log)
    _write(log, b"X", 40, number=2)
    _is_refused(log, "identity-crc")


def _is_refused(log: Path, rule: str) -> None:
    files = _files(log)
    with pytest.raises(CorruptError) as caught:
        Writer(log)
    assert caught.value.rule == rule
    assert {name: data[256:] for name, data in _files(log).items()} == {
        name: data[256:] for name, data in files.items()
    }
    assert [problem.rule for problem in binlog.check(log)] == [rule]


def test_a_writer_that_is_open_refuses_what_only_opening_again_recovers(tmp_path: Path) -> None:
    row, log = ROWS["5"], tmp_path / "log"
    row.left(tmp_path / "left")
    _kept(log)
    with Writer(log) as writer:
        _write(log, _path(tmp_path / "left").read_bytes(), 0)
        with pytest.raises(PoisonedError):
            writer.append(b"refused")
        with pytest.raises(PoisonedError):
            writer.append(b"refused again")
    with Writer(log) as writer:
        assert writer.append(b"after") == Ref(2, 256)
