"""Damaged and hostile small files of a log: for any content, reading them raises our own errors and takes little
memory.
"""

from __future__ import annotations

import json
import os
import random
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import binlog
from binlog import Batch, Mode, RangeReader, Reader, Sequence, Since, Writer
from binlog.errors import BinlogError, CorruptError
from tests.support.children import Child
from tests.support.turns import in_turn

# The memory that a few KB may take, including zstd's own.
MEMORY_BYTES = 96 << 20
BATCH = {"producer": "source", "sequence": 1, "record_count": 1, "number": 1, "start": 256, "end": 264, "crc": 1}

HOSTILE_BATCHES: dict[str, bytes] = {
    **{
        f"{name} is {value!r}": json.dumps({**BATCH, name: value}).encode()
        for name, value in [
            ("sequence", "1"), ("sequence", 1.5), ("sequence", True), ("sequence", None), ("sequence", [1]),
            ("number", 0), ("number", -1), ("number", 1e300), ("start", -1), ("end", 2**70), ("end", 10), ("crc", -1),
            ("crc", 2**32), ("crc", 1.0), ("record_count", -5), ("producer", 7), ("producer", None), ("producer", {}),
        ]
    },
    "infinite": json.dumps({**BATCH, "sequence": float("inf")}).encode(),
    "lacks one": json.dumps({name: BATCH[name] for name in list(BATCH)[1:]}).encode(),
    "has one more": json.dumps({**BATCH, "more": 1}).encode(),
    "deep arrays": b"[" * 60_000,
    "deep objects": b'{"a":' * 10_000,
    "many digits": b"1" * 60_000,
    "no text": b"\xff\xfe\x00",
    "empty": b"",
    "null": b"null",
    "too large": json.dumps({**BATCH, "producer": "x" * 70_000}).encode(),
}  # fmt: skip


@pytest.mark.parametrize("what", HOSTILE_BATCHES)
def test_a_hostile_producer_file_raises_corrupt_error(tmp_path: Path, what: str) -> None:
    with Writer(tmp_path) as writer:
        writer.append_idempotent([Batch.from_records([b"record"])], producer="source", sequence=1)
    [path] = tmp_path.glob("*.producer")
    path.write_bytes(HOSTILE_BATCHES[what])
    with Writer(tmp_path) as writer:
        with pytest.raises(CorruptError) as caught:
            writer.last_producer_batch("source")
        assert (caught.value.path, caught.value.rule) == (str(path), "producer")
        writer.append(b"others go on")
    assert len(list(Reader(tmp_path))) == 2


@pytest.mark.parametrize("size", range(0, 73, 3))
def test_an_index_of_any_size_is_repaired(tmp_path: Path, size: int) -> None:
    with Writer(tmp_path) as writer:
        refs = [writer.append(b"record") for _ in range(3)]
    os.truncate(tmp_path / "00000001.idx", size)
    assert [each.action for each in binlog.repair(tmp_path)] == ["index"]
    assert [entry.ref for entry in Reader(tmp_path)] == refs
    assert binlog.check(tmp_path) == []


def _make(log: Path) -> dict[str, bytes]:
    with Writer(log, prepare_bytes=4096) as writer:
        for file in range(3):
            for index in range(8):
                writer.append(b"%d %d" % (file, index) * (30 * index + 1), mode=Mode.SYNC if index % 3 else Mode.FLUSH)
            writer.append_idempotent([Batch.from_records([b"turn"])], producer="source", sequence=file + 1)
            if file < 2:
                writer.cutover()
    binlog.archive(log, keep_last=1)
    [once] = log.glob("*.producer")
    (log / f"{once.name}.next").write_bytes(once.read_bytes())
    return {path.name: path.read_bytes() for path in log.iterdir() if path.name != ".repair.lock"}


def _mutated(data: bytes, dice: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(dice.choice([1, 1, 1, 2, 3])):
        at = dice.randrange(len(changed) + 1)
        size = dice.randrange(1, 40)
        match dice.randrange(5):
            case 0 if at < len(changed):
                changed[at] ^= 1 << dice.randrange(8)
            case 1:
                del changed[at:]
            case 2:
                del changed[at : at + size]
            case 3:
                changed[at:at] = dice.randbytes(size)
            case _:
                changed[at : at + 8] = dice.choice([b"\xff" * 8, bytes(8), b"\x7f" + b"\xff" * 7, b"\0\0\0\1" * 2])
    return bytes(changed)


def _uses(log: Path) -> Iterator[Callable[[], object]]:
    def append() -> None:
        with Writer(log, prepare_bytes=4096) as writer:
            writer.append(b"more")
            writer.last_producer_batch("source")

    yield lambda: list(Reader(log))
    yield lambda: list(Reader(log, Since(1)))
    yield lambda: list(Reader(log, Sequence(3), verify=False))
    yield lambda: [list(RangeReader(log, number)) for number in (1, 2, 3)]
    yield lambda: binlog.check(log)
    yield lambda: binlog.stat(log)
    yield lambda: binlog.repair(log, dry_run=True)
    yield lambda: binlog.prune(log, keep_bytes=0, dry_run=True)
    yield append
    yield lambda: binlog.archive(log)
    yield lambda: binlog.repair(log)
    yield append
    yield lambda: list(Reader(log))


def _try_mutations(log: Path, seed: int, count: int) -> None:
    sound = _make(log)
    with open("/proc/self/statm", encoding="ascii") as statm:
        used = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY_BYTES,) * 2)
    dice = random.Random(seed)
    for number in range(count):
        for path in log.iterdir():
            path.unlink()
        target = dice.choice(sorted(sound))
        for name, data in sound.items():
            (log / name).write_bytes(_mutated(data, dice) if name == target else data)
        for index, use in enumerate(_uses(log)):
            try:
                use()
            except BinlogError:
                continue
            except BaseException as error:
                error.add_note(f"use {index} of input {number} from seed {seed}, with another {target}")
                raise


@pytest.mark.slow
@pytest.mark.parametrize("seed", in_turn(range(4)))
def test_no_mutation_of_a_small_file_gives_another_error_or_takes_much_memory(tmp_path: Path, seed: int) -> None:
    Child(_try_mutations, tmp_path / "log", seed, 60).join()
