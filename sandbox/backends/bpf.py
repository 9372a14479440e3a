"""Compile a seccomp profile to the program that the kernel runs, by libseccomp, for backends without an engine."""

import ctypes
import json
import os
from functools import cache
from typing import Any

from ..errors import NoEngine

LIBRARY = "libseccomp.so.2"
PACKAGE = "libseccomp2"
ACTIONS = {"SCMP_ACT_ALLOW": 0x7FFF0000, "SCMP_ACT_ERRNO": 0x00050000}
"""The number of an error is in the lower half."""
DEFAULT_ERROR = 1
"""EPERM, as engines use for rules without a number."""
COMPARISONS = {"SCMP_CMP_LE": 3, "SCMP_CMP_EQ": 4, "SCMP_CMP_MASKED_EQ": 7}


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
