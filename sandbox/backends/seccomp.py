"""Seccomp profile of sandboxes: the system calls that programs need, and nothing that is shared with the machine.

The profile lists what is allowed; every other system call fails with EPERM. In comparison to the profiles of engines,
it also refuses

* ``io_uring`` and ``io_setup``: the machine has one table of AIO contexts, and io_uring is a second kernel interface,
* ``AF_VSOCK`` and other socket families: vsock belongs to no network namespace and reaches the hypervisor,
* ``AF_NETLINK``, also for routes: queues of netlink sockets belong to no memory limit, so that a sandbox of 64 MiB
  could fill the machine's memory. A program that lists network interfaces gets "address family not supported",
* filters: ``seccomp``, its option of ``prctl``, and filters of sockets. The kernel compiles each into pages of the
  whole machine (``net.core.bpf_jit_limit``); without them, no container that needs a filter starts,
* types of internet sockets other than TCP and UDP, and options of sockets that hold memory of the kernel or entries of
  a table of the machine: keys of TCP MD5, multicast and anycast groups, flow labels, extension headers,
* names of anonymous memory (``PR_SET_VMA``), which belong to no memory limit,
* pipes larger than a page by ``F_SETPIPE_SZ``: the guest agents of all sandboxes have one uid, and the kernel counts
  the pages of their pipes together,
* huge pages, of which the machine reserves a number, and which belong to no memory limit,
* ``memfd_secret``, ``modify_ldt``, keyrings, ``bpf``, ``perf_event_open``, ``userfaultfd``, new namespaces and mounts,
* 32-bit system calls.

Options of sockets and of ``prctl`` are therefore lists of what is allowed.

``sync`` does nothing: it would write the dirty pages of the whole machine. The options that enlarge the receive buffer
of a socket succeed and do nothing: a connection that waits to be accepted inherits the buffer, and its data belongs to
no memory limit.

``compile_profile`` makes the program that the kernel runs, by libseccomp, for backends without an engine.

To allow a system call, add its name to ``seccomp.toml``.
"""

import ctypes
import errno
import json
import os
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from ..errors import NoEngine


def _numbers(text: str) -> list[int]:
    """Return the numbers of a list such as ``1-3, 7``."""
    ends = [one.partition("-") for one in text.split(", ")]
    return [number for first, _, last in ends for number in range(int(first), int(last or first) + 1)]


_LISTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
ALLOWED: list[str] = [name for names in _LISTS["allowed"].values() for name in names.split()]
MISSING, WITHOUT_EFFECT = (_LISTS["other"][key].split() for key in ("missing", "without_effect"))
NUMBERS = {key: _numbers(text) for key, text in _LISTS["numbers"].items()}
NEW_NAMESPACES = 0x7E020000
"""Every flag of ``clone`` that creates a namespace."""
HUGE_PAGES = {"mmap": (3, 0x40000), "memfd_create": (1, 0x4), "shmget": (2, 0o4000)}
"""Calls that can take huge pages, of which the machine reserves a number: the argument of the flags, and the flag."""
LIMITS = "prlimit64"
PERSONALITIES = (0x0, 0x8, 0x20000, 0x20008, 0x40000, 0xFFFFFFFF)
AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
INTERNET_PROTOCOLS = (0, 6, 17)
"""The default of the socket type, TCP and UDP."""
SOCKET_TYPES = (1, 2)
"""Streams and datagrams."""
SOCKET_TYPE_MASK = 0xF
LEVELS = {"socket": 1, "tcp": 6, "ip": 0, "udp": 17, "ipv6": 41}
"""The level of each kind of socket option."""
BUFFER_OPTIONS = (8, 18, 33)
"""SO_RCVBUF, SO_RCVLOWAT and SO_RCVBUFFORCE."""
SET_PIPE_SIZE = 1031
PIPE_MAX_BYTES = 4096
LIBRARY = "libseccomp.so.2"
PACKAGE = "libseccomp2"
ACTIONS = {"SCMP_ACT_ALLOW": 0x7FFF0000, "SCMP_ACT_ERRNO": 0x00050000}
"""The number of an error is in the lower half."""
DEFAULT_ERROR = 1
"""EPERM, as engines use for rules without a number."""
COMPARISONS = {"SCMP_CMP_LE": 3, "SCMP_CMP_EQ": 4, "SCMP_CMP_MASKED_EQ": 7}


def _rule(
    action: str, *names: str, error: int | None = None, args: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    rule: dict[str, Any] = {"names": list(names), "action": f"SCMP_ACT_{action}"}
    if args:
        rule["args"] = args
    return rule if error is None else {**rule, "errnoRet": error}


def _equals(index: int, value: int) -> dict[str, Any]:
    return {"index": index, "value": value, "op": "SCMP_CMP_EQ"}


def _masked(index: int, mask: int, value: int) -> dict[str, Any]:
    return {"index": index, "value": mask, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ"}


def _without(index: int, flags: int) -> dict[str, Any]:
    return _masked(index, flags, 0)


def _socket_options() -> list[dict[str, Any]]:
    """Return the rules of ``setsockopt``: lists of values, because the kernel ignores the upper half of an argument."""
    options = [(level, option) for kind, level in LEVELS.items() for option in NUMBERS[f"{kind}_options"]]
    buffers = [[_equals(1, LEVELS["socket"]), _equals(2, option)] for option in BUFFER_OPTIONS]
    return [
        *(_rule("ALLOW", "setsockopt", args=[_equals(1, level), _equals(2, option)]) for level, option in options),
        *(_rule("ERRNO", "setsockopt", error=0, args=buffer) for buffer in buffers),
    ]


@cache
def profile(*, shared_user: bool = False) -> str:
    """Return the profile as JSON in the format of Docker; the engine selects its architecture.

    ``shared_user``: the guest agent has the user of the commands, so that a process may change its own limits only.
    """
    allowed = ALLOWED.copy()
    own_limits = list[dict[str, Any]]()
    if shared_user:
        allowed.remove(LIMITS)
        own_limits = [_rule("ALLOW", LIMITS, args=[_equals(0, 0)])]
    internet = [
        _rule("ALLOW", "socket", args=[_equals(0, family), _masked(1, SOCKET_TYPE_MASK, kind), _equals(2, protocol)])
        for family in (AF_INET, AF_INET6)
        for kind in SOCKET_TYPES
        for protocol in INTERNET_PROTOCOLS
    ]
    one_page = {"index": 2, "value": PIPE_MAX_BYTES, "op": "SCMP_CMP_LE"}
    return json.dumps(
        {
            "defaultAction": "SCMP_ACT_ERRNO",
            "archMap": [
                {"architecture": "SCMP_ARCH_X86_64", "subArchitectures": []},
                {"architecture": "SCMP_ARCH_AARCH64", "subArchitectures": []},
            ],
            "syscalls": [
                _rule("ALLOW", *allowed),
                _rule("ERRNO", *MISSING, error=errno.ENOSYS),
                _rule("ERRNO", *WITHOUT_EFFECT, error=0),
                _rule("ALLOW", "clone", args=[_without(0, NEW_NAMESPACES)]),
                *(_rule("ALLOW", name, args=[_without(*flag)]) for name, flag in HUGE_PAGES.items()),
                *(_rule("ALLOW", "personality", args=[_equals(0, value)]) for value in PERSONALITIES),
                _rule("ALLOW", "socket", "socketpair", args=[_equals(0, AF_UNIX)]),
                *internet,
                *_socket_options(),
                *(_rule("ALLOW", "fcntl", args=[_equals(1, command)]) for command in NUMBERS["file_commands"]),
                *(_rule("ALLOW", "prctl", args=[_equals(0, option)]) for option in NUMBERS["process_options"]),
                _rule("ALLOW", "fcntl", args=[_equals(1, SET_PIPE_SIZE), one_page]),
                *own_limits,
                _rule("ERRNO", "socket", error=errno.EAFNOSUPPORT, args=[_equals(0, AF_NETLINK)]),
            ],
        }
    )


class _Comparison(ctypes.Structure):
    """``struct scmp_arg_cmp``; for a masked comparison, ``first`` is the mask."""

    _fields_ = (
        ("index", ctypes.c_uint),
        ("operation", ctypes.c_int),
        ("first", ctypes.c_uint64),
        ("second", ctypes.c_uint64),
    )


def load_library() -> Any:
    """Return libseccomp. Raises NoEngine."""
    try:
        library = ctypes.CDLL(LIBRARY, use_errno=True)
    except OSError as error:
        raise NoEngine(f"local sandboxes need libseccomp: apt-get install {PACKAGE}") from error
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_init.argtypes = [ctypes.c_uint32]
    library.seccomp_syscall_resolve_name.argtypes = [ctypes.c_char_p]
    library.seccomp_rule_add_array.argtypes = [
        *(ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint, ctypes.POINTER(_Comparison))
    ]
    library.seccomp_export_bpf.argtypes = [ctypes.c_void_p, ctypes.c_int]
    library.seccomp_release.argtypes = [ctypes.c_void_p]
    return library


@cache
def compile_profile(profile: str) -> bytes:
    """Return the program of a profile for this machine's architecture; other architectures are killed.

    ``profile`` is JSON in the format of Docker. System calls that libseccomp does not know get the default action.

    Raises:
        NoEngine: libseccomp is missing, or refuses a rule.
    """
    library, content = load_library(), json.loads(profile)
    context = library.seccomp_init(_action(content["defaultAction"], DEFAULT_ERROR))
    try:
        for rule in content["syscalls"]:
            action = _action(rule["action"], rule.get("errnoRet", DEFAULT_ERROR))
            comparisons = [
                _Comparison(one["index"], COMPARISONS[one["op"]], one["value"], one.get("valueTwo", 0))
                for one in rule.get("args", [])
            ]
            array = (_Comparison * len(comparisons))(*comparisons)
            for name in rule["names"]:
                number = library.seccomp_syscall_resolve_name(name.encode())
                if number < 0:
                    continue
                if failed := library.seccomp_rule_add_array(context, action, number, len(array), array):
                    raise NoEngine(f"libseccomp refuses the rule of `{name}`: {os.strerror(-failed)}")
        return _export(library, context)
    finally:
        library.seccomp_release(context)


def _action(name: str, error: int) -> int:
    return ACTIONS[name] | (error if name == "SCMP_ACT_ERRNO" else 0)


def _export(library: Any, context: int) -> bytes:
    end = os.memfd_create("seccomp")
    try:
        if failed := library.seccomp_export_bpf(context, end):
            raise NoEngine(f"libseccomp cannot write the system call filter: {os.strerror(-failed)}")
        return os.pread(end, os.fstat(end).st_size, 0)
    finally:
        os.close(end)


def open_program(program: bytes) -> int:
    """Return a descriptor from whose start a program can be read; the caller must close it."""
    end = os.memfd_create("seccomp")
    os.write(end, program)
    os.lseek(end, 0, os.SEEK_SET)
    return end
