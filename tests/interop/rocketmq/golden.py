"""The golden files: stores that the real one wrote, with what it said of them."""

from __future__ import annotations

import json
import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from binlog.commitlog.read.store_reader import StoreReader
from tests.interop.rocketmq.peer import HERE, StorePeer

# Each store, and how it was written.  What a version cannot do is left out for it.
STORES: dict[str, dict[str, object]] = {
    "crc": {"record_crc": 1, "flush": "sync"},
    "plain": {"record_crc": 0, "flush": "async", "store_host": "2001:db8::1"},
    "killed": {"record_crc": 1, "flush": "async", "how": "killed"},
}
# Stores that have a feature of version 5, and how each is asked for.
FEATURES: dict[str, dict[str, object]] = {
    "batch-queues": {"topic.queue.type": "BatchCQ"},
    "rocksdb-queues": {"store_type": "defaultRocksDB"},
    "light-queues": {"lmq": 1},
    "compacted-topic": {"topic.cleanup.policy": "COMPACTION"},
    "extended-queues": {"extension": 1},
}
FEATURES_ARCHIVE = HERE / "features-5.3.3.tar.xz"
# Stores whose damaged end the real store cut off before it went on with messages of other sizes, or of the same.
CUT = {"smaller": 13, "same": 40, "larger": 300}
CUT_ARCHIVE = HERE / "cut-5.3.3.tar.xz"
_CUT_SIZES = {"units_in_file": 100, "entries": 500}
_DAMAGED = 40
_SAID = "said.json"
# What a broker would have beside the store: the delayed message, which has long been due, was given on.
_DELIVERED = '{"dataVersion":{"counter":1,"stateVersion":0,"timestamp":1795394539234},"offsetTable":{3:1}}'


def archive(version: str) -> Path:
    """Where a version's stores are kept."""
    return HERE / f"golden-{version}.tar.xz"


def versions() -> list[str]:
    """Those of which stores are kept."""
    return sorted(path.name.removeprefix("golden-").removesuffix(".tar.xz") for path in HERE.glob("golden-*.tar.xz"))


def is_old(version: str) -> bool:
    """Whether a version knows neither the CRC of a whole message nor topics of more than 127 bytes."""
    return version.startswith("4.")


def make(peer: StorePeer) -> Path:
    """Have the real store write all of them anew."""
    with tempfile.TemporaryDirectory() as name:
        for store, settings in STORES.items():
            if is_old(peer.version):
                settings = {**settings, "record_crc": 0, "long_topics": 0}
            said = peer.write(Path(name, store, "store"), **settings)
            Path(name, store, _SAID).write_text(json.dumps(said))
        with tarfile.open(archive(peer.version), "w:xz") as file:
            file.add(name, ".", filter=_plain)
    return archive(peer.version)


def make_features(peer: StorePeer) -> Path:
    """Have the real store write all stores of FEATURES."""
    with tempfile.TemporaryDirectory() as name:
        for store, settings in FEATURES.items():
            peer.feature(Path(name, store), **settings)
        with tarfile.open(FEATURES_ARCHIVE, "w:xz") as file:
            file.add(name, ".", filter=_plain)
    return FEATURES_ARCHIVE


def unpack_from(kept: Path, store: str, folder: Path) -> Path:
    """Return a copy of a store of an archive."""
    with tarfile.open(kept) as file:
        members = [member for member in file.getmembers() if Path(member.name).parts[:1] == (store,)]
        # `filter` came with Python 3.11.4.
        file.extractall(folder, members, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    return folder / store


def make_cut(peer: StorePeer) -> Path:
    """Have the real store write 60 messages, damage one, have it open that and append 7: all stores of CUT."""
    with tempfile.TemporaryDirectory() as name:
        for store, body_bytes in CUT.items():
            path = Path(name, store)
            peer.append(path, count=60, body=CUT["same"], **_CUT_SIZES)
            with StoreReader(path) as reader:
                (message,), _ = reader.pull("orders", 0, _DAMAGED, 1)
            (file,) = (path / "commitlog").glob("*0")
            data = bytearray(file.read_bytes())
            at = data.index(message.body, message.offset)
            data[at : at + 20] = b"\xff" * 20
            file.write_bytes(data)
            peer.append(path, count=7, body=body_bytes, **_CUT_SIZES)
        with tarfile.open(CUT_ARCHIVE, "w:xz") as file:
            file.add(name, ".", filter=_plain)
    return CUT_ARCHIVE


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Of nobody in particular."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def unpack(version: str, store: str, folder: Path) -> tuple[Path, dict[str, Any]]:
    """A copy of a store, and what the real one said of it."""
    made = unpack_from(archive(version), store, folder)
    delay_offsets = made / "store" / "config" / "delayOffset.json"
    delay_offsets.parent.mkdir(exist_ok=True)
    delay_offsets.write_text(_DELIVERED)
    said: dict[str, Any] = json.loads((made / _SAID).read_text())
    return made / "store", said


def remove_queues_and_index(store: Path) -> None:
    """Leave of a store its commit log alone, as if its process had been killed."""
    for folder in ("consumequeue", "index"):
        shutil.rmtree(store / folder)
    (store / "checkpoint").unlink()
    (store / "abort").touch()
