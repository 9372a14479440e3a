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

To allow a system call, add its name to ``ALLOWED``.
"""

import ctypes
import errno
import json
import os
from functools import cache
from typing import Any

from ..errors import NoEngine

ALLOWED = {
    "files": """
        access chdir chmod chown close close_range copy_file_range creat dup dup2 dup3 faccessat faccessat2
        fadvise64 fallocate fchdir fchmod fchmodat fchmodat2 fchown fchownat fdatasync fgetxattr
        file_getattr file_setattr flistxattr flock fremovexattr fsetxattr fstat fstatfs fsync ftruncate
        futimesat getcwd getdents getdents64 getxattr getxattrat inotify_add_watch inotify_init inotify_init1
        inotify_rm_watch ioctl lchown lgetxattr link linkat listxattr listxattrat llistxattr lremovexattr lseek
        lsetxattr lstat mkdir mkdirat mknod mknodat newfstatat open openat openat2 pread64 preadv preadv2
        pwrite64 pwritev pwritev2 read readahead readlink readlinkat readv removexattr removexattrat rename
        renameat renameat2 rmdir sendfile setxattr setxattrat splice stat statfs statx symlink symlinkat
        sync_file_range tee truncate umask unlink unlinkat utime utimensat utimes vmsplice write writev
    """,
    "waiting": """
        epoll_create epoll_create1 epoll_ctl epoll_ctl_old epoll_pwait epoll_pwait2 epoll_wait epoll_wait_old
        eventfd eventfd2 pipe pipe2 poll ppoll pselect6 select signalfd signalfd4 timerfd_create timerfd_gettime
        timerfd_settime
    """,
    "memory": """
        brk cachestat madvise map_shadow_stack membarrier mincore mlock mlock2 mlockall
        mprotect mremap mseal msync munlock munlockall munmap pkey_alloc pkey_free pkey_mprotect process_madvise
        process_mrelease remap_file_pages
    """,
    "processes": """
        arch_prctl capget capset execve execveat exit exit_group fork futex futex_requeue futex_wait futex_waitv
        futex_wake get_robust_list get_thread_area getcpu getegid geteuid getgid getgroups getpgid getpgrp
        getpid getppid getpriority getresgid getresuid getrlimit getrusage getsid gettid getuid ioprio_get
        ioprio_set kcmp kill landlock_add_rule landlock_create_ruleset landlock_restrict_self pause pidfd_open
        pidfd_send_signal prlimit64 process_vm_readv process_vm_writev ptrace restart_syscall rseq
        rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait
        rt_tgsigqueueinfo sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getattr
        sched_getparam sched_getscheduler sched_rr_get_interval sched_setaffinity sched_setattr sched_setparam
        sched_setscheduler sched_yield set_robust_list set_thread_area set_tid_address setfsgid setfsuid
        setgid setgroups setpgid setpriority setregid setresgid setresuid setreuid setrlimit setsid setuid
        sigaltstack sysinfo tgkill time times tkill uname vfork wait4 waitid
    """,
    "timers": """
        alarm clock_getres clock_gettime clock_nanosleep getitimer gettimeofday nanosleep setitimer timer_create
        timer_delete timer_getoverrun timer_gettime timer_settime
    """,
    "IPC": """
        mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedsend mq_unlink msgctl msgget msgrcv msgsnd
        semctl semget semop semtimedop shmat shmctl shmdt
    """,
    "sockets": """
        accept accept4 bind connect getpeername getrandom getsockname getsockopt listen recvfrom recvmmsg
        recvmsg sendmmsg sendmsg sendto shutdown
    """,
}
MISSING = ("clone3", "io_setup", "io_uring_setup", "io_uring_enter", "io_uring_register", "seccomp")
"""Calls that fail with ENOSYS, upon which programs use others or none. No filter can check the flags of ``clone3``."""
WITHOUT_EFFECT = ("sync", "syncfs")
"""Calls that succeed and do nothing: they write file systems of the machine, and files of a sandbox have no disk."""
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
SOL_SOCKET, SOL_TCP = 1, 6
SOL_IP, SOL_UDP, SOL_IPV6 = 0, 17, 41
SOCKET_OPTIONS = 100
"""More than the kernel has options of SOL_SOCKET."""
BUFFER_OPTIONS = (8, 18, 33)
"""SO_RCVBUF, SO_RCVLOWAT and SO_RCVBUFFORCE."""
FILTER_OPTIONS = (26, 27, 44, 50, 51, 52)
"""From SO_ATTACH_FILTER to SO_DETACH_REUSEPORT_BPF."""
IP_OPTIONS = (1, 2, 3, 6, 7, 8, *range(10, 16), 20, 21, 23, 24, 25, 32, 33, 34, 49, 50, 51)
"""Without IP_OPTIONS, policies and memberships."""
UDP_OPTIONS = (1, 103, 104)
"""UDP_CORK, UDP_SEGMENT and UDP_GRO."""
IPV6_OPTIONS = (
    *(1, 7, 8, 16, 17, 18, 19, 23, 24, 25, 26, 29, 30, 31, 33, 49, 51, 53, 56, 58, 60, 61, 62, 66, 67, 70),
    *(72, 73, 74, 76, 77, 78),
)
"""Without memberships, anycast, flow labels, policies and extension headers of what is sent."""
TCP_OPTIONS = (*range(1, 14), 18, 23, 25, 30, 36, 37)
"""From TCP_NODELAY to TCP_CONGESTION, then timeouts, fast open and limits of what is not sent."""
PROCESS_OPTIONS = (
    *(*range(1, 17), 19, 20, 21, *range(23, 31), 33, 34, *range(36, 43), 45, 46, 47, *range(50, 57)),
    *(*range(59, 67), *range(68, 78)),
)
"""Options of ``prctl`` but PR_SET_SECCOMP (22), PR_SET_MM, PR_SET_MEMORY_MERGE and those with four bytes."""
FILE_COMMANDS = (*range(17), 36, 37, 38, *range(1024, 1031), *range(1032, 1039))
"""Commands of ``fcntl`` but F_SETPIPE_SZ."""
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


def _at_most(index: int, value: int) -> dict[str, Any]:
    return {"index": index, "value": value, "op": "SCMP_CMP_LE"}


def _masked(index: int, mask: int, value: int) -> dict[str, Any]:
    return {"index": index, "value": mask, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ"}


def _without(index: int, flags: int) -> dict[str, Any]:
    return _masked(index, flags, 0)


def _socket_options() -> list[dict[str, Any]]:
    """Return the rules of ``setsockopt``: lists of values, because the kernel ignores the upper half of an argument."""
    allowed = {
        SOL_SOCKET: sorted(set(range(1, SOCKET_OPTIONS)) - {*BUFFER_OPTIONS, *FILTER_OPTIONS}),
        SOL_TCP: TCP_OPTIONS,
        SOL_IP: IP_OPTIONS,
        SOL_UDP: UDP_OPTIONS,
        SOL_IPV6: IPV6_OPTIONS,
    }
    options = [(level, option) for level, options in allowed.items() for option in options]
    return [
        *(_rule("ALLOW", "setsockopt", args=[_equals(1, level), _equals(2, option)]) for level, option in options),
        *(
            _rule("ERRNO", "setsockopt", error=0, args=[_equals(1, SOL_SOCKET), _equals(2, option)])
            for option in BUFFER_OPTIONS
        ),
    ]


@cache
def profile(*, shared_user: bool = False) -> str:
    """Return the profile as JSON in the format of Docker; the engine selects its architecture.

    ``shared_user``: the guest agent has the user of the commands, so that a process may change its own limits only.
    """
    allowed = [name for names in ALLOWED.values() for name in names.split()]
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
                *(_rule("ALLOW", "fcntl", args=[_equals(1, command)]) for command in FILE_COMMANDS),
                *(_rule("ALLOW", "prctl", args=[_equals(0, option)]) for option in PROCESS_OPTIONS),
                _rule("ALLOW", "fcntl", args=[_equals(1, SET_PIPE_SIZE), _at_most(2, PIPE_MAX_BYTES)]),
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
            comparisons = [_comparison(one) for one in rule.get("args", [])]
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


def _comparison(one: dict[str, Any]) -> _Comparison:
    return _Comparison(one["index"], COMPARISONS[one["op"]], one["value"], one.get("valueTwo", 0))


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
