"""`binlog commitlog cat`: print messages from a start to the end."""

from __future__ import annotations

from collections.abc import Iterator

import click

from binlog.cli.commitlog.messages import messages_bytes
from binlog.cli.commitlog.options import (
    JSON_TEXT,
    Offset,
    Time,
    check_queue,
    place_from,
    queue_option,
    topic_option,
)
from binlog.cli.exits import opening
from binlog.cli.options import directory_argument, json_option
from binlog.cli.output import write
from binlog.commitlog import TAGS, StoredMessage, StoreReader, TopicReader, parse_properties

_AT_ONCE = 64


@click.command("cat", short_help="Print messages.")
@directory_argument
@topic_option("Only messages of this topic.")
@queue_option("Only messages of this queue of the topic.")
@click.option(
    "--from",
    "start",
    metavar="OFFSET|TIME",
    callback=place_from,
    help="Start here instead of at the first message: at a queue offset with --queue, otherwise at an offset of the "
    "commit log; or at a time: 2025-01-31T12:00:00Z (UTC if it has no offset), or 5m, 2h or 1d for that long ago.",
)
@click.option("--count", type=click.IntRange(min=0), metavar="N", help="Print at most N messages.")
@click.option("--tag", metavar="TAG", help="Only messages with this tag.")
@json_option(JSON_TEXT)
def command(
    directory: str,
    topic: str | None,
    queue_id: int | None,
    start: Offset | Time | None,
    count: int | None,
    tag: str | None,
    as_json: bool,
) -> None:
    """Print the bodies of the messages in DIR, one per line, in the order of the commit log.

    The bytes are printed as they are. A body with newlines takes several lines; --json keeps it on one. Without
    --topic, all messages are printed, including half messages and delayed messages.

    If a message is damaged, the messages before it are printed, then the error, and the exit status is 1.
    """
    if queue_id is not None and topic is None:
        raise click.UsageError("--queue needs --topic")
    with opening():
        reader = StoreReader(directory)
    with reader:
        with opening():
            batches = _of_all(reader, start, tag) if topic is None else _of_topic(reader, topic, queue_id, start, tag)
        for batch in batches:
            if count is not None:
                batch = batch[:count]
                count -= len(batch)
            write(messages_bytes(batch, as_json=as_json))
            if count == 0:
                break


def _of_topic(
    reader: StoreReader, topic: str, queue_id: int | None, start: Offset | Time | None, tag: str | None
) -> Iterator[list[StoredMessage]]:
    check_queue(reader, topic, queue_id)
    messages = TopicReader(reader, topic, queue_id, tag=tag)
    if isinstance(start, Time):
        messages.start_at_time(start)
    elif start is not None and queue_id is not None:
        messages.start_at_index(start)
    elif start is not None:
        messages.start_at_offset(start)
    return iter(messages.read_batch, [])


def _of_all(reader: StoreReader, start: Offset | Time | None, tag: str | None) -> Iterator[list[StoredMessage]]:
    messages = reader.scan(reader.log_offset_by_time(start) if isinstance(start, Time) else start)
    if tag is not None:
        messages = (message for message in messages if parse_properties(message.properties).get(TAGS) == tag)
    return _batches(messages)


def _batches(messages: Iterator[StoredMessage]) -> Iterator[list[StoredMessage]]:
    """Group messages; if an error occurs, yield those before it first."""
    batch: list[StoredMessage] = []
    try:
        for message in messages:
            batch.append(message)
            if len(batch) == _AT_ONCE:
                yield batch
                batch = []
    except BaseException:
        yield batch
        raise
    yield batch
