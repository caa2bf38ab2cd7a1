"""The golden files: stores of the real RocketMQ, with its reports about them."""

from __future__ import annotations

import json
import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from binlog.commitlog.read.store_reader import StoreReader
from tests.interop.rocketmq.peer import HERE, StorePeer

# The stores, and how each was written, as far as the version supports that.
STORES: dict[str, dict[str, object]] = {
    "crc": {"record_crc": 1, "flush": "sync"},
    "plain": {"record_crc": 0, "flush": "async", "store_host": "2001:db8::1"},
    "killed": {"record_crc": 1, "flush": "async", "how": "killed"},
}
# Stores that use a feature of version 5, and the option for each.
FEATURES: dict[str, dict[str, object]] = {
    "batch-queues": {"topic.queue.type": "BatchCQ"},
    "rocksdb-queues": {"store_type": "defaultRocksDB"},
    "light-queues": {"lmq": 1},
    "compacted-topic": {"topic.cleanup.policy": "COMPACTION"},
    "extended-queues": {"extension": 1},
}
FEATURES_ARCHIVE = HERE / "features-5.3.3.tar.xz"
# Stores with a damaged end that the real store cut off before it appended more messages, of other sizes or the same.
CUT = {"smaller": 13, "same": 40, "larger": 300}
CUT_ARCHIVE = HERE / "cut-5.3.3.tar.xz"
_CUT_SIZES = {"units_in_file": 100, "entries": 500}
_DAMAGED = 40
_REPORT = "said.json"
# The state of a broker: it has delivered the delayed message, which has long been due.
_DELIVERED = '{"dataVersion":{"counter":1,"stateVersion":0,"timestamp":1795394539234},"offsetTable":{3:1}}'


def archive(version: str) -> Path:
    """Return the archive for a version."""
    return HERE / f"golden-{version}.tar.xz"


def versions() -> list[str]:
    """Return the versions that have an archive."""
    return sorted(path.name.removeprefix("golden-").removesuffix(".tar.xz") for path in HERE.glob("golden-*.tar.xz"))


def is_old(version: str) -> bool:
    """Return whether a version lacks the CRC of whole messages and topics of more than 127 bytes."""
    return version.startswith("4.")


def make(peer: StorePeer) -> Path:
    """Write all golden stores with the real RocketMQ."""
    with tempfile.TemporaryDirectory() as name:
        for store, settings in STORES.items():
            if is_old(peer.version):
                settings = {**settings, "record_crc": 0, "long_topics": 0}
            report = peer.write(Path(name, store, "store"), **settings)
            Path(name, store, _REPORT).write_text(json.dumps(report))
        with tarfile.open(archive(peer.version), "w:xz") as file:
            file.add(name, ".", filter=_plain)
    return archive(peer.version)


def make_features(peer: StorePeer) -> Path:
    """Write all stores of FEATURES with the real RocketMQ."""
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
        # `filter` was added in Python 3.11.4.
        file.extractall(folder, members, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    return folder / store


def make_cut(peer: StorePeer) -> Path:
    """Write all stores of CUT: 60 messages, of which one is damaged, and 7 more after the real store has reopened
    it."""
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
    """Remove the owner of a file in the archive."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def unpack(version: str, store: str, folder: Path) -> tuple[Path, dict[str, Any]]:
    """Return a copy of a store, and the real store's report about it."""
    made = unpack_from(archive(version), store, folder)
    delay_offsets = made / "store" / "config" / "delayOffset.json"
    delay_offsets.parent.mkdir(exist_ok=True)
    delay_offsets.write_text(_DELIVERED)
    report: dict[str, Any] = json.loads((made / _REPORT).read_text())
    return made / "store", report


def remove_queues_and_index(store: Path) -> None:
    """Remove everything but the commit log of a store, as if its process had been killed."""
    for folder in ("consumequeue", "index"):
        shutil.rmtree(store / folder)
    (store / "checkpoint").unlink()
    (store / "abort").touch()
