"""A worker that hands each message to an HTTP service, which may see a message twice and act on it once.

    python examples/http_worker.py LOG GROUP URL

Each message is the body of a POST request.  The header `Idempotency-Key` has the message's id, which is the same in
each delivery.  The service stores the key together with the effect, and so it knows that it has acted on the message.

The answer decides: 2xx acknowledges the message.  408, 425, 429, 5xx and no answer at all are failures: the message is
delivered again, after the time in the header `Retry-After` if there is one.  Every other answer would be the same next
time, so the message becomes a dead letter.
"""

from __future__ import annotations

import argparse
import http.client
import urllib.error
import urllib.request

import binlog

# A request that takes longer is a failure, so no message is in hand for ever and the group needs no lease.
_TIMEOUT_SECONDS = 30
_TRY_AGAIN = {408, 425, 429}


def post(url: str, item: binlog.Item) -> None:
    """Send a message, and end the item if the service refuses it; the caller acknowledges it otherwise."""
    request = urllib.request.Request(url, data=item.data, headers={"Idempotency-Key": item.id})
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS):
            return
    except urllib.error.HTTPError as error:
        reason = f"HTTP {error.code} {error.reason}"
        if error.code in _TRY_AGAIN or error.code >= 500:
            item.nack(delay=_retry_after(error), error=reason)
        else:
            item.reject(reason)
    except (OSError, http.client.HTTPException) as error:
        item.nack(error=f"no answer: {error}")


def _retry_after(error: urllib.error.HTTPError) -> float | None:
    """Return the seconds for which the service wants to be left alone; None if it does not say."""
    text = error.headers.get("Retry-After", "")
    return float(text) if text.isdecimal() else None  # it may also be a date


def main() -> None:
    """Work until SIGTERM, which lets the worker finish the message in hand."""
    arguments = argparse.ArgumentParser(description="Hand each message to an HTTP service.")
    arguments.add_argument("log", help="the log's directory")
    arguments.add_argument("group", help="the name of the consumer group")
    arguments.add_argument("url", help="where to send the messages")
    given = arguments.parse_args()
    with binlog.ConsumerGroup(given.log, given.group) as group:
        group.work(lambda item: post(given.url, item))


if __name__ == "__main__":
    main()
