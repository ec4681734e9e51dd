"""A seccomp filter, assembled by hand: what no hook needs and what would get round the other limits.

`memfd_create` and System V shared memory are refused because such memory belongs to no process's own
pages, so neither an rlimit nor the watch would see it. Families other than UNIX, IP and netlink are refused
because some of them (vsock) ignore network namespaces.
"""

from __future__ import annotations

import errno
import platform
import struct
from dataclasses import dataclass
from functools import cache

_LD_ABS, _JEQ, _JGE, _JSET, _RET = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NR, _ARCH, _ARG0, _ARG1 = 0, 4, 16, 24
_CLONE_NEW = 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000 | 0x00020000
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_FAMILIES = (1, 2, 10, 16)
_X32 = 0x40000000

_DENIED: dict[str, tuple[int, int]] = {
    "acct": (163, 89), "add_key": (248, 217), "bpf": (321, 280), "chroot": (161, 51), "delete_module": (176, 106),
    "finit_module": (313, 273), "fsconfig": (431, 431), "fsmount": (432, 432), "fsopen": (430, 430),
    "fspick": (433, 433), "init_module": (175, 105), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425), "kexec_file_load": (320, 294), "kexec_load": (246, 104), "keyctl": (250, 219),
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "mount": (165, 40), "mount_setattr": (442, 442),
    "move_mount": (429, 429), "msgget": (68, 186), "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
    "open_tree": (428, 428), "perf_event_open": (298, 241), "pidfd_getfd": (438, 438), "pivot_root": (155, 41),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "ptrace": (101, 117), "quotactl": (179, 60),
    "reboot": (169, 142), "request_key": (249, 218), "setns": (308, 268), "shmat": (30, 196), "shmctl": (31, 195),
    "shmget": (29, 194), "swapoff": (168, 225), "swapon": (167, 224), "syslog": (103, 116), "umount2": (166, 39),
    "unshare": (272, 97), "userfaultfd": (323, 282),
}  # fmt: skip
"""What is refused, with its number on x86_64 and aarch64."""


@dataclass(frozen=True, slots=True)
class _Machine:
    column: int
    audit: int
    clone: int
    clone3: int
    socket: int
    ioctl: int


_MACHINES = {
    "x86_64": _Machine(column=0, audit=0xC000003E, clone=56, clone3=435, socket=41, ioctl=16),
    "aarch64": _Machine(column=1, audit=0xC00000B7, clone=220, clone3=435, socket=198, ioctl=29),
}


def _op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _refuse(error: int) -> bytes:
    return _op(_RET, _ERRNO | error)


@cache
def program(machine: str = "") -> bytes | None:
    """Return the filter for this machine, or None where its system call numbers are not known here."""
    found = _MACHINES.get(machine or platform.machine())
    if found is None:
        return None
    lines = [_op(_LD_ABS, _ARCH), _op(_JEQ, found.audit, 1, 0), _op(_RET, _KILL), _op(_LD_ABS, _NR)]
    if found.audit == 0xC000003E:
        lines += [_op(_JGE, _X32, 0, 1), _refuse(errno.ENOSYS)]
    for number in (numbers[found.column] for numbers in _DENIED.values()):
        lines += [_op(_JEQ, number, 0, 1), _refuse(errno.EPERM)]
    # glibc falls back to clone(), whose flags a filter can read, when clone3() does not exist.
    lines += [_op(_JEQ, found.clone3, 0, 1), _refuse(errno.ENOSYS)]
    lines += [
        _op(_JEQ, found.clone, 0, 4),
        _op(_LD_ABS, _ARG0),
        _op(_JSET, _CLONE_NEW, 0, 1),
        _refuse(errno.EPERM),
    ]
    lines += [_op(_RET, _ALLOW)]
    lines += [
        _op(_JEQ, found.ioctl, 0, 5),
        _op(_LD_ABS, _ARG1),
        _op(_JEQ, _TIOCSTI, 1, 0),
        _op(_JEQ, _TIOCLINUX, 0, 1),
    ]
    lines += [_refuse(errno.EPERM), _op(_RET, _ALLOW)]
    lines += [_op(_JEQ, found.socket, 0, len(_FAMILIES) + 2), _op(_LD_ABS, _ARG0)]
    lines += [_op(_JEQ, family, len(_FAMILIES) - index, 0) for index, family in enumerate(_FAMILIES)]
    lines += [_refuse(errno.EPERM)]
    lines += [_op(_RET, _ALLOW)]
    return b"".join(lines)
