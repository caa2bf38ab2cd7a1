"""Producer: appends messages to a log, and with an id each of them once.

A producer with an id appends producer batches (binlog/log/append/producers.py), numbered as its messages are: the
number of a batch is that of its last message.  So the log's own files say which message is the last one, and a batch
whose writer died is resolved like any other.  The lock of the id adds that one object of one process appends under it.
"""

from __future__ import annotations

import errno
import hashlib
import os
import struct
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Self

from binlog.errors import (
    AccessError,
    BusyError,
    ClosedError,
    CorruptError,
    FullError,
    GoneError,
    NotFoundError,
    StateError,
)
from binlog.format.consumers.message import PRODUCER_BYTES, MadeBy, Message
from binlog.format.names import producer_lock_name
from binlog.format.record import COUNT_MAX, RECORD_BYTES_FORMAT_MAX, Ref
from binlog.format.values import member, plain_bytes, seconds_of
from binlog.log.append.producers import ProducerBatch
from binlog.log.batch import Batch
from binlog.log.directory import LogDirectory
from binlog.log.reader import Reader
from binlog.log.writer import Writer
from binlog.storage.descriptors import Descriptor
from binlog.storage.locking.locks import lock
from binlog.storage.mode import Mode

if TYPE_CHECKING:
    from typing import Unpack

    from binlog.log.writer import Options

_NS = 10**9
_SECONDS_MAX = 10**9
_ID_CHARACTERS_MAX = 255

Body = bytes | bytearray | memoryview
Duration = float | timedelta | str


class Producer:
    """Appends messages, records with a key, headers, a delay or an expiry, to the log in a directory.

    path: the log's directory; it is created if it is missing, in a parent that exists.
    id: a name of 1 to 255 characters, under which each message is appended once; None for a producer without one.
    mode: how far a message is when `append` returns.  With an id it is Mode.SYNC.
    options: as of a Writer, for example `cutover_bytes="1G"`.

    Each message has an envelope of 24 bytes, and more for its key, headers and times; `Message.parse` reads it.

    With an id, messages are numbered from 0 on: the number is a message's `sequence`, and the envelope has it.  One
    object of one process has an id at a time.  The kernel frees the id when that process dies, and not before, so there
    is no second process that continues under the same id.  `last` is the number of the last message in the log, from
    which the program continues after a restart.  An `append` takes three syncs more than a Writer's (see
    `Writer.append_idempotent`, to which a producer's id is the name of the producer), so append many messages together.

    If UnknownOutcomeError or Ctrl-C ends a call, the same call with its `sequence` appends the message unless it is in
    the log.  After PoisonedError, close the producer, open it again, and do the same.

    Threads may share a producer.  A forked child may use one without an id; one with an id belongs to the parent.
    Raises: BusyError at once if the id is taken, with the holder if it can be found; ValueError; otherwise as a Writer.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        id: str | None = None,  # noqa: A002 - the field's word
        *,
        mode: Mode | str = Mode.SYNC,
        **options: Unpack[Options],
    ) -> None:
        mode = member(Mode, mode, "mode")
        if id is not None:
            _check_id(id)
            if mode is not Mode.SYNC:
                raise ValueError(f"a producer with an id has Mode.SYNC, because each message is durable; not {mode!r}")
        self.id = id
        self._writer = Writer(path, mode=mode, **options)
        self._numbered: _NumberedMessages | None = None
        if id is not None:
            try:
                self._numbered = _NumberedMessages(self._writer, id)
            except BaseException:
                self._writer.close()
                raise

    def append(
        self,
        body: Body,
        *,
        key: bytes | None = None,
        headers: Mapping[str, bytes] | None = None,
        delay: Duration | None = None,
        expires: Duration | None = None,
        sequence: int | None = None,
    ) -> Ref | None:
        """Append one message and return its ref; None in Mode.STAGE.

        key: messages with the same key may have an order.  headers: names and values.  All of these have 64 KiB at
        most.  delay: seconds until a consumer group delivers the message, also a timedelta or a text such as `5m`.
        expires: seconds after which it does not deliver the message any more, more than `delay`.
        sequence: the message's number, only with an id; by default the one after `last`.  If that message or a later
        one is in the log, the call appends nothing, and returns the message's ref, or None if it is not known.
        Durable on return in Mode.SYNC.  Blocks as `Writer.append`; with an id as `Writer.append_batches`, and while
        another thread appends.
        Raises: StateError without a sequence if the outcome of an earlier call is not known; StateError in a forked
        child; ValueError; otherwise as `Writer.append`, or as `Writer.append_batches`.
        """
        now_ns = time.time_ns()
        due_ns, expiry_ns = _times(now_ns, delay, expires)
        message = _checked(
            Message(
                body=plain_bytes(body),
                key=key,
                headers=headers or {},
                produced_ns=now_ns,
                due_ns=due_ns,
                expiry_ns=expiry_ns,
            )
        )
        if self._numbered is not None:
            return self._numbered.append([message], sequence)[0]
        _refuse_sequence(sequence)
        return self._writer.append(_packed(message, None))

    def append_many(self, messages: Iterable[Message | Body], *, sequence: int | None = None) -> Sequence[Ref | None]:
        """Append messages together and return their refs: all of them are in the log afterwards, or none.

        messages: bodies, or Messages without `made_by` and `acks`.  A Message's times count, and are nanoseconds since
        1970; if it has no `produced_ns`, that is now.
        sequence: of the first message; the others follow.  Messages that are in the log are not appended again.
        Mode.STAGE counts as Mode.FLUSH.  Blocks and raises: as `append`.
        """
        if isinstance(messages, bytes | bytearray | memoryview | str):
            raise TypeError("append_many takes several messages, as a list of them; append takes one")
        checked = [
            _checked(each if isinstance(each, Message) else Message(body=plain_bytes(each))) for each in messages
        ]
        if self._numbered is not None:
            return self._numbered.append(checked, sequence)
        _refuse_sequence(sequence)
        return self._writer.append_many([_packed(message, None) for message in checked])

    @property
    def last(self) -> int | None:
        """The number of the last message of this id in the log, None if there is none or the producer has no id.

        After a call whose outcome is not known, it is read from the log, and `append` continues from there.
        Blocks and raises: as `append`, if such a call came before.
        """
        return None if self._numbered is None else self._numbered.last()

    @property
    def path(self) -> str:
        """The log's directory, as given."""
        return self._writer.path

    def close(self) -> None:
        """Close the producer after everything appended is durable, and free its id; a second call does nothing.

        Blocks and raises: as `Writer.close`.
        """
        try:
            self._writer.close()
        finally:
            # Not before, so that a call of another thread ends while no other process has the id.
            if self._numbered is not None:
                self._numbered.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<binlog.Producer {self.path!r}{'' if self.id is None else f' {self.id!r}'}>"


class _NumberedMessages:
    """The messages of one producer id.  Holds the lock of the id until `close`.

    Invariant: `_last` is the last batch in the log, unless `_in_doubt` is a range: the messages of a call whose outcome
    is not known.
    """

    def __init__(self, writer: Writer[Ref | None], producer: str) -> None:
        self._writer = writer
        self._producer = producer
        self._hash = hashlib.sha256(producer.encode()).digest()[:PRODUCER_BYTES]
        self._mutex = threading.RLock()
        self._is_closed = False
        with LogDirectory(writer.path) as directory:
            self._path = directory.absolute
            self._lock = _lock_producer(directory, producer)
        self._in_doubt: range | None = None
        self._refs: dict[int, Ref] | None = None  # of the messages in the last batch, by their numbers
        try:
            self._last = writer.last_producer_batch(producer)
        except BaseException:
            self._lock.close()  # the traceback refers to this object, and would keep the lock
            raise

    def last(self) -> int | None:
        """Return the number of the last message in the log."""
        self._check()
        with self._mutex:
            self._resolve_doubt()
            return None if self._last is None else self._last.sequence

    def append(self, messages: list[Message], first: int | None) -> list[Ref | None]:
        """Append the messages that are not in the log.  first: the number of the first one; None for the next."""
        self._check()
        if first is not None:
            _check_sequence(first)
        with self._mutex:
            if first is not None:
                self._resolve_doubt()
                known = min(max(self._next - first, 0), len(messages))
                refs = self._refs_of(range(first, first + known))
                return refs + self._append(messages[known:], first + known, is_named=True)
            if self._in_doubt is not None:
                text = "may be in the log: call it again with that `sequence`, or read `last`"
                raise StateError(f"the call that began with message {self._in_doubt[0]} of {self._name} {text}")
            return self._append(messages, self._next, is_named=False)

    def _append(self, messages: list[Message], first: int, *, is_named: bool) -> list[Ref | None]:
        if not messages:
            return []
        numbers = range(first, first + len(messages))
        _check_sequence(numbers[-1])
        batch = Batch.from_records(
            _packed(message, MadeBy(self._hash, number)) for message, number in zip(messages, numbers, strict=True)
        )
        self._in_doubt = numbers
        try:
            found = self._writer.append_idempotent([batch], producer=self._producer, sequence=numbers[-1])
        except (FullError, StateError, ClosedError, BusyError):
            self._in_doubt = None  # they are raised before anything is appended
            raise
        if found is not None:
            self._last, self._refs, self._in_doubt = found, None, None
            return [Ref(found.number, found.start + start) for start in batch.offsets[:-1]]
        # Another one appended under this name: the lock was removed by hand, or a Writer uses the name.
        self._resolve_doubt()
        if is_named:
            return self._refs_of(numbers)
        raise StateError(f"nothing was appended: another program has appended message {numbers[-1]} of {self._name}")

    def _resolve_doubt(self) -> None:
        """After a call that an exception ended, read from the log which messages it has."""
        if self._in_doubt is not None:
            self._last, self._refs = self._writer.last_producer_batch(self._producer), None
            self._in_doubt = None

    @property
    def _next(self) -> int:
        return 0 if self._last is None else self._last.sequence + 1

    def _refs_of(self, numbers: range) -> list[Ref | None]:
        """Return the refs of messages that are in the log: they are known for those of the last batch."""
        last = self._last
        if last is None or not numbers or numbers[-1] <= last.sequence - last.record_count:
            return [None] * len(numbers)
        if self._refs is None:
            self._refs = self._read_refs(last)
        return [self._refs.get(number) for number in numbers]

    def _read_refs(self, batch: ProducerBatch) -> dict[int, Ref]:
        refs: dict[int, Ref] = {}
        remaining = batch.record_count
        try:
            with Reader(self._path, batch.ref, follow=False, record_bytes_max=RECORD_BYTES_FORMAT_MAX) as reader:
                while remaining and (entries := reader.read_batch(records_max=remaining).entries()):
                    remaining -= len(entries)
                    for ref, data in entries:
                        made_by = Message.parse(data).made_by
                        if made_by is not None and made_by.producer == self._hash:
                            refs[made_by.sequence] = ref
        except (GoneError, NotFoundError, CorruptError):
            pass  # retention removed the messages, or they are damaged
        return refs

    @property
    def _name(self) -> str:
        return f"the producer {self._producer!r} of {self._path}"

    def _check(self) -> None:
        """Raise an error unless this process has the id."""
        if self._lock.inherited:
            raise StateError(f"{self._name} belongs to the parent process: a forked child opens one with another id")
        if self._is_closed:
            raise ClosedError("the producer is closed")
        if not self._lock.intact:
            raise StateError(f"{self._name} lost its lock, because the program closed its descriptors: open it again")

    def close(self) -> None:
        """Free the id; does nothing in a forked child."""
        self._is_closed = True
        self._lock.close()


def _lock_producer(directory: LogDirectory, producer: str) -> Descriptor:
    """Open and lock the file of a producer's lock, without waiting; it is made if needed, and stays.

    The lock is freed when the descriptor is closed, which a forked child does at once.
    Raises: BusyError; AccessError; FullError.
    """
    name = producer_lock_name(producer)
    if not directory.has(name):
        try:
            directory.close_file(directory.create(name, directory.access()))
        except AccessError as error:
            if error.errno != errno.EEXIST:  # another process has just made it
                raise
    file = directory.descriptor(name)
    try:
        lock(file.fd, directory.file_path(name), timeout=0)
    except BusyError as error:
        file.close()
        text = f"the producer {producer!r} of {directory.path} belongs to {error.holder or 'another process'}"
        raise BusyError(text, holder=error.holder) from None
    except BaseException:
        file.close()
        raise
    return file


def _check_id(producer: object) -> None:
    if not isinstance(producer, str):
        raise TypeError(f"a producer's id is a str, not {type(producer).__name__}")
    if not 1 <= len(producer) <= _ID_CHARACTERS_MAX:
        raise ValueError(f"a producer's id has 1 to {_ID_CHARACTERS_MAX} characters, not {len(producer)}")


def _check_sequence(sequence: object) -> None:
    if not isinstance(sequence, int) or isinstance(sequence, bool):
        raise TypeError(f"a sequence is a whole number, not {type(sequence).__name__}")
    if not 0 <= sequence <= COUNT_MAX:
        raise ValueError(f"a sequence is 0 to {COUNT_MAX}, not {sequence}")


def _refuse_sequence(sequence: int | None) -> None:
    if sequence is not None:
        raise ValueError("only the messages of a producer with an id have a sequence")


def _times(now_ns: int, delay: Duration | None, expires: Duration | None) -> tuple[int, int]:
    """Return the due time and the expiry, 0 for none.  Raises: TypeError, ValueError."""
    due_ns = 0 if delay is None else now_ns + _nanoseconds(delay, "delay")
    if expires is None:
        return due_ns, 0
    expiry_ns = now_ns + _nanoseconds(expires, "expires")
    if expiry_ns <= max(due_ns, now_ns):
        raise ValueError(f"expires is more than 0 and more than delay, not {expires!r}")
    return due_ns, expiry_ns


def _nanoseconds(value: Duration, name: str) -> int:
    seconds = seconds_of(value, name)
    if not 0 <= seconds <= _SECONDS_MAX:
        raise ValueError(f"{name} is 0 to {_SECONDS_MAX} seconds, not {value!r}")
    return int(seconds * _NS)


def _checked(message: Message) -> Message:
    """Return the message with its body as bytes, and with a time of production.  Raises: TypeError, ValueError."""
    if message.made_by is not None or message.acks is not None:
        raise ValueError("a message to append has no `made_by` and no `acks`: those are the producer's")
    if message.key is not None and not isinstance(message.key, bytes):
        raise TypeError(f"a key is bytes, not {type(message.key).__name__}")
    if not isinstance(message.headers, Mapping):
        raise TypeError(f"headers are a mapping, not {type(message.headers).__name__}")
    if not all(isinstance(name, str) and isinstance(value, bytes) for name, value in message.headers.items()):
        raise TypeError("a header's name is a str, and its value is bytes")
    if type(message.body) is bytes and message.produced_ns:
        return message
    return replace(message, body=plain_bytes(message.body), produced_ns=message.produced_ns or time.time_ns())


def _packed(message: Message, made_by: MadeBy | None) -> bytes:
    try:
        return (message if made_by is None else replace(message, made_by=made_by)).pack()
    except struct.error as error:
        raise ValueError(f"the envelope has no room for a time or the number of headers: {error}") from error
