"""`work` ends at SIGTERM at once, whenever the signal comes, and whichever thread the kernel gives it to."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.checkout import ROOT

GROUP = "billing"
_SECONDS_MAX = 3.0  # without being woken, an idle member sleeps for five

_PROGRAM = """
import json, os, random, signal, sys, threading, time
from binlog import ConsumerGroup, Writer

path, name, threads, count, moment = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
chance, sent, took = random.Random(), [], []

def send():
    until = time.monotonic() + chance.choice([0.003, 0.03]) * chance.random()
    while time.monotonic() < until:
        pass
    sent.append(time.monotonic())
    if moment == "of any thread":
        os.kill(os.getpid(), signal.SIGTERM)
    else:
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

signal.signal(signal.SIGTERM, lambda *_: None)  # if it comes before `work`
with Writer(path) as writer, ConsumerGroup(path, name) as group:
    for _ in range(count):
        writer.append(b"work")
        sender = threading.Thread(target=send)
        again = threading.Timer(20, os.kill, (os.getpid(), signal.SIGKILL))
        again.daemon = True
        again.start()
        before = signal.getsignal(signal.SIGTERM)
        group.work(lambda item: sender.start(), threads=threads)
        took.append(time.monotonic() - sent[-1])
        again.cancel()
        sender.join()
        assert signal.getsignal(signal.SIGTERM) is before
        assert signal.set_wakeup_fd(-1) == -1
print(json.dumps([max(took), len(took)]))
"""


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("moment", ["of any thread", "of another thread"])
def test_work_ends_at_once_after_sigterm_at_any_moment(
    tmp_path: Path, threads: int, moment: str, figure: Callable[[str], None]
) -> None:
    """A message starts the sender, so the signal comes when the worker handles it, acknowledges it, or waits."""
    count = 40
    program = [sys.executable, "-c", _PROGRAM, str(tmp_path), GROUP, str(threads), str(count), moment]
    done = subprocess.run(program, cwd=ROOT, stdout=subprocess.PIPE, check=True, timeout=300)
    longest, ended_count = json.loads(done.stdout)
    assert ended_count == count
    assert longest < _SECONDS_MAX
    figure(f"SIGTERM {moment}, {threads} threads: work ended after {longest:.3f} s at most")
