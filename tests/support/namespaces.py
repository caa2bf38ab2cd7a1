"""A mount namespace for one test, in a forked child."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.children import Child

_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_MS_REC_PRIVATE = 0x4000 | 1 << 18
_MS_REMOUNT_READ_ONLY = 0x20 | 0x1


def on_a_small_disk(folder: Path, work: Callable[[], None], *, size: str = "4m") -> None:
    """Run `work` in a child in which `folder` is an empty tmpfs of that size; skip if no namespace can be created."""
    start_on_a_small_disk(folder, work, size=size).join()


def start_on_a_small_disk(folder: Path, work: Callable[[], None], *, size: str = "4m") -> Child:
    """Start the same, without waiting for the child to end."""
    allowed, answer = os.pipe()

    def mount_and_work() -> None:
        mounted = _mount(folder, size)
        os.write(answer, b"y" if mounted else b"n")
        if mounted:
            work()

    child = Child(mount_and_work)
    mounted = os.read(allowed, 1)
    os.close(allowed)
    os.close(answer)
    if mounted == b"n":
        child.join()
        pytest.skip("no mount namespace may be made here")
    return child


def make_read_only(folder: Path) -> None:
    """Make the small disk read-only, for code that runs on it."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"none", os.fsencode(folder), None, _MS_REMOUNT_READ_ONLY, None) != 0:
        raise OSError(ctypes.get_errno(), f"{folder} cannot be remounted")


def _mount(folder: Path, size: str) -> bool:
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.geteuid(), os.getegid()
    if libc.unshare(_CLONE_NEWNS if user == 0 else _CLONE_NEWNS | _CLONE_NEWUSER) != 0:
        return False
    if user != 0 and not _become_root(user, group):
        return False
    private = libc.mount(b"none", b"/", None, _MS_REC_PRIVATE, None)
    options = f"size={size}".encode()
    return private == 0 and libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, options) == 0


def _become_root(user: int, group: int) -> bool:
    """Map root to this user; some kernels allow a user namespace and then refuse this."""
    try:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    except PermissionError:
        return False
    return True


def container(folder: Path, place: Path, *, memory: Path | None = None, is_read_only: bool = False) -> list[str]:
    """Return a command that runs another one in a container, which has `folder` at `place`; skip if there can be none.

    It has process ids, shared memory and IPC objects of its own, and ends with the command.
    memory: a folder that is its /dev/shm, which other containers may have too; by default, it has one of its own.
    is_read_only: it cannot write to `folder`.
    """
    place.mkdir()
    shared_memory = f'mount --bind "{memory}" /dev/shm' if memory else "mount -t tmpfs none /dev/shm"
    protect = ' && mount -o remount,ro,bind "$2"' if is_read_only else ""
    script = f'{shared_memory} && mount --bind "$1" "$2"{protect} && shift 2 && exec "$@"'
    as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
    command = ["unshare", *as_root, "--mount", "--ipc", "--pid", "--fork", "--kill-child", "sh", "-c", script, "sh"]
    command += [str(folder), str(place)]
    if not shutil.which("unshare") or subprocess.run([*command, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no mount namespace may be made here")
    return command
