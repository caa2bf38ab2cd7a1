"""The same records in every form that is compared, in one folder, made once."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

from binlog import Mode, Writer
from stress.bench.contestant import RECORD_BYTES

FILES = 4
_RECORDS_A_CALL = 1000
_PIECE_BYTES = 1 << 20
# Half of a record cannot be compressed, apart from its alphabet; the other half is the same in all.
_SAME = b' "level": "info", "service": "checkout", "message": "the order was taken", '.ljust(RECORD_BYTES // 2, b"=")


class Dataset:
    """The forms, by name.  log: a log of four files; one: a log of one file, with the same records."""

    def __init__(self, folder: Path, records: int) -> None:
        self.folder = folder
        self.records = records
        self.log = folder / "four"
        self.one = folder / "one"
        self.text = folder / "text"
        self.parquet = folder / "parquet"
        self.parquet_zstd = folder / "parquet-zstd"

    def make(self, spark: Any) -> None:
        """Write all forms to the disk, so that the first measurement does not wait for that."""
        self.folder.mkdir(exist_ok=True)
        for path, files in ((self.log, FILES), (self.one, 1)):
            self._append(path, files)
        records = spark.read.format("binlog").load(str(self.log))
        records.selectExpr("cast(data AS string) AS value").write.text(str(self.text))
        for path, codec in ((self.parquet, "none"), (self.parquet_zstd, "zstd")):
            records.write.parquet(str(path), compression=codec)
        os.sync()

    @staticmethod
    def read_in(path: Path) -> None:
        """Read a form into memory, because other rows of the run may have evicted it."""
        for file in path.iterdir():
            with file.open("rb", buffering=0) as opened:
                while opened.read(_PIECE_BYTES):
                    pass

    def _append(self, path: Path, files: int) -> None:
        chance = random.Random(self.records)  # the same records in each log
        a_file = self.records // _RECORDS_A_CALL // files
        with Writer(path, mode=Mode.FLUSH) as writer:
            for number in range(self.records // _RECORDS_A_CALL):
                if number % a_file == 0 and 0 < number < files * a_file:
                    writer.cutover()
                writer.append_many([_record(chance) for _ in range(_RECORDS_A_CALL)])
            writer.sync()


def _record(chance: random.Random) -> bytes:
    return chance.randbytes(RECORD_BYTES // 4).hex().encode() + _SAME


def dataset(folder: Path, megabytes: float) -> Dataset:
    """Return a dataset of about `megabytes` megabytes of records."""
    calls = max(FILES, round(megabytes * 1e6 / RECORD_BYTES / _RECORDS_A_CALL))
    return Dataset(folder, calls * _RECORDS_A_CALL)
