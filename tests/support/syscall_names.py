"""The names of system calls by their numbers, which differ from machine to machine."""

from __future__ import annotations

import contextlib
import functools
import platform
import re
import sysconfig
from pathlib import Path


def call_name(number: int) -> str:
    """The name of a system call on this machine, or `syscall_NNN`."""
    return _call_names().get(number, f"syscall_{number}")


@functools.cache
def _call_names() -> dict[int, str]:
    """The names in the machine's own header, where it is installed, and those of the table below."""
    names: dict[int, str] = {}
    machine = platform.machine()
    folder = Path("/usr/include")
    multiarch = sysconfig.get_config_var("MULTIARCH") or f"{machine}-linux-gnu"
    for header in (folder / "asm/unistd_64.h", folder / str(multiarch) / "asm/unistd_64.h"):
        with contextlib.suppress(OSError):
            found = re.findall(r"#define\s+__NR_(\w+)\s+(\d+)\s", header.read_text())
            names.update((int(number), name) for name, number in found)
    return names | table_of_names(machine)


def table_of_names(machine: str) -> dict[int, str]:
    """The calls that matter here, for the two machines whose numbers were looked up; empty for any other."""
    if machine not in _MACHINES:
        return {}
    names = {}
    for entry in _TABLE.split():
        name, _, numbers = entry.partition("=")
        number = numbers.split("/")[_MACHINES.index(machine)]
        if number:
            names[int(number)] = name
    return names


_MACHINES = ("x86_64", "aarch64")

# name=number on x86_64/number on aarch64
_TABLE = """
    read=0/63 write=1/64 open=2/ close=3/57 stat=4/ fstat=5/80 lstat=6/ poll=7/ lseek=8/62 mmap=9/222
    mprotect=10/226 munmap=11/215 brk=12/214 rt_sigaction=13/134 rt_sigprocmask=14/135 rt_sigreturn=15/139
    ioctl=16/29 pread64=17/67 pwrite64=18/68 readv=19/65 writev=20/66 access=21/ pipe=22/ select=23/
    sched_yield=24/124 mremap=25/216 msync=26/227 mincore=27/232 madvise=28/233 dup=32/23 dup2=33/ pause=34/
    nanosleep=35/101 getpid=39/172 sendfile=40/71 socket=41/198 connect=42/203 sendto=44/206 recvfrom=45/207
    sendmsg=46/211 recvmsg=47/212 socketpair=53/199 clone=56/220 fork=57/ vfork=58/ execve=59/221 exit=60/93
    wait4=61/260 kill=62/129 uname=63/160 fcntl=72/25 flock=73/32 fsync=74/82 fdatasync=75/83 truncate=76/45
    ftruncate=77/46 getcwd=79/17 chdir=80/49 fchdir=81/50 rename=82/ mkdir=83/ rmdir=84/ creat=85/ link=86/
    unlink=87/ readlink=89/ chmod=90/ fchmod=91/52 chown=92/ fchown=93/55 umask=95/166 gettimeofday=96/169
    getrlimit=97/163 getuid=102/174 getgid=104/176 geteuid=107/175 getegid=108/177 getppid=110/173 setsid=112/157
    sigaltstack=131/132 statfs=137/43 fstatfs=138/44 prctl=157/167 sync=162/81 gettid=186/178 futex=202/98
    getdents64=217/61 set_tid_address=218/96 restart_syscall=219/128 fadvise64=221/223 clock_gettime=228/113
    clock_nanosleep=230/115 exit_group=231/94 epoll_wait=232/ epoll_ctl=233/21 tgkill=234/131 waitid=247/95
    openat=257/56 mkdirat=258/34 fchownat=260/54 newfstatat=262/79 unlinkat=263/35 renameat=264/38 linkat=265/37
    symlinkat=266/36 readlinkat=267/78 fchmodat=268/53 faccessat=269/48 pselect6=270/72 ppoll=271/73
    set_robust_list=273/99 splice=275/76 sync_file_range=277/84 utimensat=280/88 epoll_pwait=281/22 fallocate=285/47
    eventfd2=290/19 epoll_create1=291/20 dup3=292/24 pipe2=293/59 inotify_init1=294/26 inotify_add_watch=254/27
    preadv=295/69 pwritev=296/70 prlimit64=302/261 syncfs=306/267 sched_getaffinity=204/123
    sched_setaffinity=203/122 getcpu=309/168 renameat2=316/276 getrandom=318/278 memfd_create=319/279
    membarrier=324/283 mlock=149/228 copy_file_range=326/285 preadv2=327/286 pwritev2=328/287 statx=332/291
    rseq=334/293 pidfd_send_signal=424/424 io_uring_setup=425/425 io_uring_enter=426/426 clone3=435/435
    close_range=436/436 openat2=437/437 pidfd_open=434/434 pidfd_getfd=438/438 faccessat2=439/439
"""
