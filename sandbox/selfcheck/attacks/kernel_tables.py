"""Attacks on memory and tables of the kernel that have one limit for the whole machine, and no limit per sandbox."""

from ...backends.protocol import Containment
from ..attack import Attack, AttackContext
from ..harness import expect, python

PROGRAMS = """
import ctypes, errno, os, socket, struct
libc = ctypes.CDLL(None, use_errno=True)
x86 = os.uname().machine == "x86_64"
PRCTL, SECCOMP = (157, 317) if x86 else (167, 277)
code = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7FFF0000) * 64)
program = struct.pack("HxxxxxxQ", 64, ctypes.addressof(code))
pointer = ctypes.c_char_p(program)
libc.prctl(38, 1, 0, 0, 0)
def install(*arguments):
    return libc.syscall(*(one if one is pointer else ctypes.c_long(one) for one in arguments)) >= 0
tried = {
    "seccomp": lambda: install(SECCOMP, 1, 0, pointer),
    "a listener": lambda: install(SECCOMP, 1, 8, pointer),
    "prctl": lambda: install(PRCTL, 22, 2, pointer),
    "prctl with high bits": lambda: install(PRCTL, 22 | 1 << 32, 2, pointer),
}
for option in (26, 50, 51, 52):
    for kind in (1, 2):
        def attach(option=option, kind=kind):
            socket.socket(socket.AF_INET, kind).setsockopt(1, option, program)
            return True
        tried[f"socket option {option}"] = attach
def attach_high():
    one = socket.socket()
    return libc.syscall(54 if x86 else 208, ctypes.c_long(one.fileno()), ctypes.c_long(1 | 1 << 32),
                        ctypes.c_long(26 | 1 << 32), pointer, ctypes.c_long(16)) >= 0
tried["socket option with high bits"] = attach_high
for name, one in tried.items():
    try:
        if one():
            print(name)
    except OSError:
        pass
"""
"""Ways to have the kernel compile a filter."""
OPTIONS = """
import ctypes, errno, os, socket, struct
refused = errno.EPERM
cases = [(socket.AF_INET, 0, option) for option in (4, 16, 17, *range(35, 49))]
cases += [(socket.AF_INET6, 41, option) for option in (6, 20, 27, 32, 34, 35, *range(42, 49), 54, 55, 57, 59)]
cases += [(socket.AF_INET, 17, 100), (socket.AF_INET, 6, 14), (socket.AF_INET, 6, 31)]
for family, level, option in cases:
    try:
        with socket.socket(family, socket.SOCK_DGRAM if level == 17 else socket.SOCK_STREAM) as one:
            one.setsockopt(level, option, bytes(256))
    except OSError as error:
        if error.errno in (refused, errno.EAFNOSUPPORT):
            continue
    print(f"{level}/{option}")
"""
NAMES = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_long
place = libc.mmap(None, 1 << 16, 3, 0x22, -1, 0)
print(libc.prctl(0x53564D41, 0, ctypes.c_long(place), ctypes.c_long(4096), b"x" * 79))
"""


async def filters(context: AttackContext) -> str:
    """Have the kernel compile filters, whose pages are limited on the whole machine and belong to no memory limit."""
    found = (await python(context.sandbox, PROGRAMS)).splitlines()
    expect(not found, f"installed by {', '.join(found)}")
    return "every way refused"


async def options(context: AttackContext) -> str:
    """Set socket options that take entries of tables of the machine, or memory of no limit."""
    found = (await python(context.sandbox, OPTIONS)).split()
    expect(not found, f"reached the kernel (level/option): {', '.join(found)}")
    return "flow labels, groups, policies and headers refused"


async def names(context: AttackContext) -> str:
    """Name anonymous memory; the names belong to no memory limit."""
    result = await python(context.sandbox, NAMES)
    expect(result == "-1", "PR_SET_VMA is allowed")
    return "refused"


KERNEL_TABLES = (
    Attack("compiled filters", filters, Containment.SYSTEM_CALLS),
    Attack("socket options of the machine", options, Containment.SYSTEM_CALLS),
    Attack("names of memory", names, Containment.SYSTEM_CALLS),
)
