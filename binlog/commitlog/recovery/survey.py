"""The survey of a store's folder before any change, which refuses features that this engine does not know.

RocketMQ can keep a store in more ways than this engine writes.  Recovery would take an unknown feature for damage and
erase it, so the writer checks names, sizes and topic attributes first.  Nothing here writes.
"""

from __future__ import annotations

import itertools
import json
import os
import stat
from collections.abc import Iterator
from typing import Any, NamedTuple

from binlog.commitlog.indexes.consume_queue import list_queues
from binlog.commitlog.options import StoreOptions
from binlog.errors import CorruptError, VersionError
from binlog.format.commitlog.indexes import UNIT_BYTES
from binlog.format.commitlog.message import BLANK, BLANK_MAGIC, MAGIC_V1, MAGIC_V2
from binlog.format.commitlog.names import (
    COMMIT_LOG_FOLDER,
    CONFIG_FOLDER,
    FOLDERS,
    INDEX_FOLDER,
    LITE_TOPIC_PREFIX,
    QUEUES_FOLDER,
    TOPICS_FILE,
    is_index_name,
    mapped_file_name,
    mapped_file_offset,
)
from binlog.storage.failures import own_errors
from binlog.storage.files import list_folder

_MAGICS = (MAGIC_V1, MAGIC_V2, BLANK_MAGIC)
# Attributes of a topic, with the values that do not change how its messages are stored; None for any value.
_ATTRIBUTES: dict[str, frozenset[str] | None] = {
    "queue.type": frozenset({"SimpleCQ"}),
    "cleanup.policy": frozenset({"DELETE"}),
    "message.type": None,
    "reserve.time": None,
}
_ROCKSDB_FILE = "CURRENT"


class Feature(NamedTuple):
    """A part of a store that this engine does not write.

    hides_messages: a reader that does not know the feature would miss messages, or find none.
    """

    path: str
    text: str
    hides_messages: bool = False


def find_features(path: str) -> Iterator[Feature]:
    """Yield the features of a store that this engine does not write; none if the folder is missing.

    Raises: AccessError.
    """
    for name in list_folder(path):
        yield from _entry(os.path.join(path, name), name)
    yield from _queues(os.path.join(path, QUEUES_FOLDER))
    yield from _config(os.path.join(path, CONFIG_FOLDER))


def refuse_features(path: str, *, reading: bool) -> None:
    """Raise VersionError if the store has a feature that this engine does not know.

    reading: only features that hide messages from a reader count.
    """
    for feature in find_features(path):
        if feature.hides_messages or not reading:
            text = f"{feature.path}: {feature.text}; this version does not support it, and changed nothing"
            raise VersionError(text, found=0, known=())


def refuse_files(path: str, options: StoreOptions) -> None:
    """Raise CorruptError if a file has another size than the options give, or is missing between two others."""
    log = os.path.join(path, COMMIT_LOG_FOLDER)
    _refuse_mapped_files(log, options.file_bytes, "StoreOptions(file_bytes=)")
    queues_folder = os.path.join(path, QUEUES_FOLDER)
    queues = list_queues(queues_folder)
    for topic, queue_id in queues:
        folder = os.path.join(queues_folder, topic, str(queue_id))
        _refuse_mapped_files(folder, options.units_in_file * UNIT_BYTES, "StoreOptions(units_in_file=)")
    index = os.path.join(path, INDEX_FOLDER)
    for name in filter(is_index_name, list_folder(index)):
        _refuse_size(os.path.join(index, name), (options.key_index.file_bytes,), "StoreOptions(key_index=)")
    _refuse_invalid_start(log)
    _refuse_missing_log(log, queues_folder, queues)


def _refuse_mapped_files(folder: str, file_bytes: int, option: str) -> None:
    offsets = [offset for name in list_folder(folder) if (offset := mapped_file_offset(name)) is not None]
    for offset in offsets:
        _refuse_size(os.path.join(folder, mapped_file_name(offset)), (file_bytes,), option)
    for before, after in itertools.pairwise(offsets):
        if after != before + file_bytes:
            where = os.path.join(folder, mapped_file_name(after))
            text = (
                f"the file before it ends at {before + file_bytes}; the files between are missing or in another folder"
            )
            raise CorruptError(where, 0, "gap", f"{text}; nothing was changed")


def _refuse_size(path: str, sizes: tuple[int, ...], option: str) -> None:
    """Check the size of a file.  An empty file is allowed: the process that created it was killed."""
    with own_errors(path, "reading the size"):
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            return
    if stat.S_ISREG(status.st_mode) and status.st_size not in (0, *sizes):
        text = f"the file has {status.st_size} bytes, and {option} gives {sizes[0]}; nothing was changed"
        raise CorruptError(path, 0, "file_bytes", text)


def _refuse_invalid_start(log: str) -> None:
    """Refuse a log that does not start with a message, because recovery would erase all of it."""
    names = [name for name in list_folder(log) if mapped_file_offset(name) is not None]
    if not names:
        return
    path = os.path.join(log, names[0])
    with own_errors(path, "reading"), open(path, "rb") as file:
        head = file.read(BLANK.size)
    if any(head) and int.from_bytes(head[4:], "big") not in _MAGICS:
        raise CorruptError(path, 0, "magic", "the log does not start with a message; nothing was changed")


def _refuse_missing_log(log: str, queues_folder: str, queues: list[tuple[str, int]]) -> None:
    """Refuse queues without a commit log, because recovery would empty them."""
    if any(mapped_file_offset(name) is not None for name in list_folder(log)):
        return
    for topic, queue_id in queues:
        if any(mapped_file_offset(name) is not None for name in list_folder(f"{queues_folder}/{topic}/{queue_id}")):
            text = f"{log} has no files, but {queues_folder} has queues: the commit log is missing or in another folder"
            raise CorruptError(log, 0, "gap", f"{text}; nothing was changed")


def _entry(path: str, name: str) -> Iterator[Feature]:
    """Yield the feature that one name in the store's folder shows."""
    if name.startswith("dledger-"):
        yield Feature(path, "a DLedger commit log", hides_messages=True)
    elif name == "batchconsumequeue" and list_folder(path):
        yield Feature(path, "queues of batches (queue.type=BatchCQ)", hides_messages=True)
    elif name == "compaction" and list_folder(os.path.join(path, "compactionLog")):
        yield Feature(path, "logs of compacted topics (cleanup.policy=COMPACTION)")
    elif name == "epochFileCheckpoint":
        yield Feature(path, "epochs of a replicated store (controller mode)")
    elif name == "tiered_index_file" and list_folder(path):
        yield Feature(path, "an index of tiered storage")
    elif name not in FOLDERS and not name.startswith(".") and os.path.isdir(path):
        yield Feature(path, "a folder that no known store has")


def _queues(folder: str) -> Iterator[Feature]:
    names = list_folder(folder)
    if _ROCKSDB_FILE in names:
        yield Feature(folder, "queues in RocksDB (storeType=defaultRocksDB)", hides_messages=True)
    for name in names:
        if name.startswith(LITE_TOPIC_PREFIX):
            yield Feature(os.path.join(folder, name), "a light queue, which has messages of other topics")


def _config(folder: str) -> Iterator[Feature]:
    for name in ("rdb", "topics"):
        if os.path.isdir(os.path.join(folder, name)):
            yield Feature(os.path.join(folder, name), "topics whose settings are in RocksDB")
    tiered = os.path.join(folder, "tieredStoreMetadata.json")
    if os.path.lexists(tiered):
        yield Feature(tiered, "tiered storage")
    yield from _topics(os.path.join(folder, TOPICS_FILE))


def _topics(path: str) -> Iterator[Feature]:
    table = _read_topics(path)
    if table is None:
        yield Feature(path, "topic settings that cannot be read")
        return
    for topic, config in table.items():
        attributes = config.get("attributes") if isinstance(config, dict) else None
        for name, value in (attributes or {}).items():
            known = _ATTRIBUTES.get(name, frozenset())
            if known is not None and value not in known:
                hides = name == "queue.type"
                yield Feature(path, f"the topic {topic} has the attribute {name}={value}", hides_messages=hides)


def _read_topics(path: str) -> dict[str, Any] | None:
    """Read the table of topics from its file, or as RocketMQ does from the backup; None if neither can be read."""
    found: dict[str, Any] | None = {}
    for each in (path, f"{path}.bak"):
        with own_errors(each, "reading"):
            try:
                with open(each, "rb") as file:
                    data = file.read()
            except FileNotFoundError:
                continue
        if not data:
            continue
        try:
            table = json.loads(data)["topicConfigTable"]
        except (ValueError, KeyError, TypeError, RecursionError):
            found = None
            continue
        if isinstance(table, dict) and all(_has_attributes(config) for config in table.values()):
            return table
        found = None
    return found


def _has_attributes(config: object) -> bool:
    """Return whether the settings of a topic are valid."""
    return isinstance(config, dict) and isinstance(config.get("attributes") or {}, dict)
