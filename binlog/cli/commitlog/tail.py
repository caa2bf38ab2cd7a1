"""`binlog commitlog tail`: print the last messages of a topic, and new ones."""

from __future__ import annotations

import click

from binlog.cli.commitlog.messages import messages_bytes
from binlog.cli.commitlog.options import JSON_TEXT, check_queue, queue_option, topic_option
from binlog.cli.exits import opening
from binlog.cli.options import directory_argument, json_option
from binlog.cli.output import raise_without_reader, write
from binlog.commitlog import StoreReader, TopicReader

_COUNT = 10

# How often a waiting follower checks that its output still has a reader.
_POLL_SECONDS = 1.0


@click.command("tail", short_help="Print a topic's last messages, and follow.")
@directory_argument
@topic_option("The topic of the messages.", required=True)
@queue_option("Only messages of this queue; without it, of all queues, including later ones.")
@click.option(
    "-n",
    "count",
    type=click.IntRange(min=0),
    default=_COUNT,
    show_default=True,
    metavar="COUNT",
    help="Print the last COUNT messages.",
)
@click.option("-f", "--follow", is_flag=True, help="Continue with new messages, until Ctrl-C.")
@json_option(JSON_TEXT)
def command(directory: str, topic: str, queue_id: int | None, count: int, follow: bool, as_json: bool) -> None:
    """Print the last messages of a topic in DIR, and with -f new ones, one per line.

    Messages are printed in the order of the commit log, and with -f as soon as readers may see them. With -f, a topic
    that does not exist yet is waited for; it may come later.
    """
    with opening():
        reader = StoreReader(directory)
    with reader:
        with opening():
            if not follow:
                check_queue(reader, topic, queue_id)
            messages = TopicReader(reader, topic, queue_id)
            messages.start_at_last(count)
        _print_all(messages, as_json)
        while follow:
            raise_without_reader()
            messages.wait(_POLL_SECONDS)
            _print_all(messages, as_json)


def _print_all(messages: TopicReader, as_json: bool) -> None:
    """Print the messages that are available."""
    while batch := messages.read_batch():
        write(messages_bytes(batch, as_json=as_json))
