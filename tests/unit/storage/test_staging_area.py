"""The staging area if shared memory is missing, full, removed, of another user or version: slower, and never wrong."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from binlog import Background, Mode, Writer, stat
from binlog.storage.native import lib
from binlog.storage.staging_area import StagingArea, sweep
from tests.support.children import Child
from tests.support.logs import job, jobs_by_writer, read_all
from tests.support.namespaces import on_a_small_disk, start_on_a_small_disk

_SHM = Path("/dev/shm")
_NEVER = Background(flush_seconds=600, sync_seconds=600)


def _area(writer: Writer) -> StagingArea | None:
    return writer._open_session().area


def _name(writer: Writer) -> Path:
    area = _area(writer)
    assert area is not None
    return _SHM / area._name.lstrip("/")


def _append_in_all_modes(log: Path, number: int, count: int = 60) -> None:
    with Writer(log, background=_NEVER) as writer:
        for sequence in range(count):
            writer.append(job(number, sequence), mode=list(Mode)[sequence % len(Mode)])


def test_the_last_writer_to_close_removes_it(log: Path) -> None:
    with Writer(log) as first:
        name = _name(first)
        with Writer(log) as second:
            assert _name(second) == name
        assert name.exists()
        assert name.stat().st_mode & 0o777 == 0o640
    assert not name.exists()


def test_only_the_rings_in_use_take_memory(log: Path) -> None:
    with Writer(log) as writer:
        assert _name(writer).stat().st_blocks * 512 < 400_000


def test_a_removed_area_is_made_again_by_the_next_writer(log: Path) -> None:
    with Writer(log, background=_NEVER) as first:
        first.append(b"a", mode=Mode.FLUSH)
        name = _name(first)
        name.unlink()
        first.append(b"b", mode=Mode.STAGE)
        with Writer(log) as second:
            assert name.exists()
            second.append(b"c")
            first.append(b"d")
    assert sorted(read_all(log)) == [b"a", b"b", b"c", b"d"]
    assert not name.exists()


def _squatted(path: Path) -> None:
    path.write_bytes(b"")
    os.chown(path, 65534, 65534)


def _open_to_all(path: Path) -> None:
    path.chmod(0o666)


def _of_another_version(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[8] ^= 1
    path.write_bytes(data)


def _too_short(path: Path) -> None:
    os.truncate(path, 5000)


def _of_another_directory(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[16] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(_squatted, marks=pytest.mark.root),
        _open_to_all,
        _of_another_version,
        _too_short,
        _of_another_directory,
    ],
)
@pytest.mark.slow
def test_an_untrusted_area_is_left_alone(log: Path, spoil: Callable[[Path], None]) -> None:
    writer = Writer(log)
    name = _name(writer)
    whole = name.read_bytes()
    writer.close()
    aside = _SHM / f"test-{os.getpid()}"
    aside.write_bytes(whole)
    aside.chmod(0o640)
    spoil(aside)
    left = aside.read_bytes()
    used = os.open(aside, os.O_RDWR)  # in use, else a writer of another test would remove it
    assert lib.binlog_byte_lock(used, lib.BINLOG_LOCK_RING_FIRST + 63) == 0
    aside.rename(name)
    try:
        _append_in_all_modes(log, 0)
        with Writer(log) as other:
            assert _area(other) is None
        assert name.read_bytes() == left
    finally:
        os.close(used)
        name.unlink()
    assert jobs_by_writer(read_all(log)) == {0: list(range(60))}


def test_garbage_in_the_rings_is_left_alone(log: Path) -> None:
    with Writer(log, background=_NEVER) as writer:
        name = _name(writer)
        with name.open("r+b") as file:
            # Every ring claims to have records, and contains noise.
            file.seek(4096)
            file.write(os.urandom(12_000))
            file.seek(32768)
            file.write(os.urandom(100_000))
        for sequence in range(30):
            writer.append(job(0, sequence), mode=Mode.SYNC)
    _append_in_all_modes(log, 1)
    found = jobs_by_writer(read_all(log))
    name.unlink(missing_ok=True)
    assert found == {0: list(range(30)), 1: list(range(60))}


def test_full_shared_memory_means_direct_appends(on_disk: Path) -> None:
    log = on_disk / "log"
    on_a_small_disk(_SHM, lambda: _append_in_all_modes(log, 0), size="64k")
    assert jobs_by_writer(read_all(log)) == {0: list(range(60))}


def test_unallocated_rings_that_claim_records_are_left_alone(on_disk: Path) -> None:
    log = on_disk / "log"

    def work() -> None:
        with Writer(log, background=_NEVER) as writer:
            for line in range(
                3
            ):  # a ring's header is three lines of 64 bytes, and its first word is the end of its records
                with _name(writer).open("r+b") as file:
                    file.seek(72)
                    file.write((64).to_bytes(4, sys.byteorder))  # `ring_limit`: every ring was in use
                    file.seek(4096)
                    file.write((bytes(64 * line) + (1024).to_bytes(8, sys.byteorder) + bytes(184))[:192] * 100)
                writer.append(job(0, line))

    on_a_small_disk(_SHM, work, size="300k")
    assert jobs_by_writer(read_all(log)) == {0: [0, 1, 2]}


def test_an_unallocated_area_is_inspected_without_touching_it(log: Path) -> None:
    with Writer(log) as writer:
        name = _name(writer)
    fd = os.open(name, os.O_RDWR | os.O_CREAT, 0o640)
    # So that no other process of these tests removes it meanwhile.
    assert lib.binlog_byte_lock(fd, lib.BINLOG_LOCK_INIT) == 0
    os.truncate(fd, lib.binlog_area_bytes())
    assert stat(log).staged_bytes is None
    assert os.fstat(fd).st_blocks == 0  # reading a page through a mapping would have allocated it, or raised SIGBUS
    os.close(fd)
    with Writer(log) as writer:
        assert _name(writer) == name
        assert name.stat().st_blocks * 512 >= 32768
    assert not name.exists()


def test_the_leftovers_of_a_killed_maker_are_removed(log: Path) -> None:
    with Writer(log) as writer:
        name = _name(writer)
    left = [name.with_name(f"{name.name}.{number:016x}") for number in range(2)]
    for path in left:
        path.touch(mode=0o640)
    with suppress(FileNotFoundError):  # another process of these tests may remove it too
        os.link(left[0], name)  # its maker died between the link and the removal of the temporary name
    sweep()
    assert not any(path.exists() for path in (*left, name))


def _use_every_way(log: Path) -> None:
    """Use shared memory by a writer, its background thread, `stat`, and another writer."""
    for _ in range(2):  # the second time with the leftovers of the first
        _append_in_all_modes(log, 0, 30)
        with Writer(log, mode=Mode.FLUSH, cutover_seconds=3600) as writer:
            writer.append(job(1, 0))
            sweep()
            stat(log)
            assert _area(writer) is None
        assert not list(_SHM.glob("binlog-*"))


def _fill_shared_memory() -> None:
    fd = os.open(_SHM / "full", os.O_WRONLY | os.O_CREAT)
    with suppress(OSError):
        while os.write(fd, bytes(4096)):
            pass
    os.close(fd)


def test_shared_memory_that_is_full_means_direct_appends(on_disk: Path) -> None:
    def work() -> None:
        _fill_shared_memory()
        _use_every_way(on_disk / "log")

    on_a_small_disk(_SHM, work, size="64k")
    assert jobs_by_writer(read_all(on_disk / "log"))[0] == 2 * list(range(30))


@pytest.mark.parametrize("size", ["4k", "16k"])
def test_shared_memory_without_room_for_an_area_means_direct_appends(on_disk: Path, size: str) -> None:
    on_a_small_disk(_SHM, lambda: _use_every_way(on_disk / "log"), size=size)
    assert jobs_by_writer(read_all(on_disk / "log"))[0] == 2 * list(range(30))


def test_shared_memory_that_is_read_only_means_direct_appends(on_disk: Path) -> None:
    on_a_small_disk(_SHM, lambda: _use_every_way(on_disk / "log"), size="64k,ro")
    assert jobs_by_writer(read_all(on_disk / "log"))[0] == 2 * list(range(30))


def test_shared_memory_that_is_missing_means_direct_appends(on_disk: Path) -> None:
    on_a_small_disk(_SHM.parent, lambda: _use_every_way(on_disk / "log"))
    assert jobs_by_writer(read_all(on_disk / "log"))[0] == 2 * list(range(30))


def test_shared_memory_that_has_room_for_one_ring(on_disk: Path) -> None:
    log = on_disk / "log"

    def work() -> None:
        with Writer(log) as first, Writer(log) as second:
            for sequence in range(30):
                first.append(job(0, sequence))
                second.append(job(1, sequence))

    on_a_small_disk(_SHM, work, size="400k")
    assert jobs_by_writer(read_all(log)) == {0: list(range(30)), 1: list(range(30))}


@pytest.mark.slow
def test_two_groups_that_share_the_directory_and_not_the_memory(on_disk: Path) -> None:
    log = on_disk / "log"
    Writer(log).close()
    apart = [
        start_on_a_small_disk(_SHM, lambda number=number: _append_in_all_modes(log, number, 300))  # type: ignore[misc]
        for number in (0, 1)
    ]
    together = [Child(_append_in_all_modes, log, number, 300) for number in (2, 3)]
    for child in (*apart, *together):
        child.join()
    assert jobs_by_writer(read_all(log)) == {number: list(range(300)) for number in range(4)}


@pytest.mark.slow
def test_a_ring_of_the_dead_is_taken_over(log: Path) -> None:
    def die() -> None:
        writer = Writer(log, background=_NEVER)
        writer.append(b"x", mode=Mode.FLUSH)
        writer.append(b"y", mode=Mode.STAGE)
        os.kill(os.getpid(), signal.SIGKILL)

    for _ in range(100):  # there are 64 rings
        with pytest.raises(AssertionError, match="-9"):
            Child(die).join()
    with Writer(log) as writer:
        area = _area(writer)
        assert area is not None
        assert area.has_ring
    assert sorted(read_all(log)) == [b"x"] * 100 + [b"y"] * 100


@pytest.mark.slow
def test_areas_of_killed_writers_are_removed(on_disk: Path) -> None:
    names: list[Path] = []
    for number in range(3):
        left, told = os.pipe()

        def die(number: int = number, told: int = told) -> None:
            writer = Writer(on_disk / str(number), background=_NEVER)
            if number == 2:
                writer.append(b"x", mode=Mode.FLUSH)
                writer.append(b"y", mode=Mode.STAGE)
            os.write(told, bytes(_name(writer)))
            os.kill(os.getpid(), signal.SIGKILL)

        with pytest.raises(AssertionError, match="-9"):
            Child(die).join()
        names.append(Path(os.fsdecode(os.read(left, 1000))))
    sweep()
    assert [name.exists() for name in names] == [False, False, True]  # the third has a staged record
    Writer(on_disk / "2").close()
    assert not names[2].exists()
    assert read_all(on_disk / "2") == [b"x", b"y"]


@pytest.mark.slow
def test_an_area_removed_before_its_first_ring_is_replaced(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another log's first writer removed it, so records staged in it would be acknowledged, and lost with their
    writer."""
    claim = StagingArea.claim
    swept: list[bool] = []

    def claim_late(area: StagingArea) -> bool:
        if not swept:
            child = Child(sweep)  # in a child process, which does not share our locks
            child.join()
            swept.append(area.has_name)
        return claim(area)

    def die() -> None:
        monkeypatch.setattr(StagingArea, "claim", claim_late)
        writer = Writer(log, background=_NEVER)
        writer.append(b"flushed", mode=Mode.FLUSH)
        writer.append(b"staged", mode=Mode.STAGE)
        assert swept == [False]
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(AssertionError, match="-9"):
        Child(die).join()
    Writer(log).close()
    assert read_all(log) == [b"flushed", b"staged"]


def _descriptors_of(path: Path) -> list[str]:
    return [fd for fd in os.listdir("/proc/self/fd") if os.path.realpath(f"/proc/self/fd/{fd}") == str(path)]


@pytest.mark.slow
def test_a_child_forked_during_a_sweep_does_not_hold_its_locks(log: Path) -> None:
    """Such a child would keep the lock, and every process that joins the staging area would wait for it forever."""
    stopped = threading.Event()

    def sweep_again_and_again() -> None:
        while not stopped.is_set():
            sweep()

    with Writer(log) as writer:
        name = _name(writer)
        assert len(_descriptors_of(name)) == 1
        thread = threading.Thread(target=sweep_again_and_again)
        thread.start()
        try:
            for _ in range(100):
                child = os.fork()
                if child == 0:
                    os._exit(len(_descriptors_of(name)))
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        finally:
            stopped.set()
            thread.join()


def test_an_area_in_a_reference_cycle_is_mapped_until_all_finalizers_have_run(log: Path) -> None:
    class User:
        def __init__(self, area: StagingArea | None) -> None:
            self.itself, self.area = self, area

        def __del__(self) -> None:
            assert self.area is not None
            found.append(self.area.staged_bytes())

    def work() -> None:
        writer = Writer(log, mode=Mode.STAGE)
        writer.append(b"staged")
        user = User(_area(writer))
        writer.close()
        del writer, user
        gc.collect()
        assert found == [0]

    found: list[int] = []
    Child(work).join()
