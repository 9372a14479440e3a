"""The profile allows what programs need and nothing that is shared with the machine."""

import json

from turnwise.sandbox.backends.seccomp import ALLOWED, BUFFER_OPTIONS, profile

REFUSED = (
    *("io_setup", "io_submit", "io_uring_setup", "memfd_secret", "modify_ldt", "keyctl", "add_key", "request_key"),
    *("bpf", "perf_event_open", "userfaultfd", "mount", "umount2", "setns", "unshare", "chroot", "clone", "clone3"),
    *(
        "open_by_handle_at",
        "name_to_handle_at",
        "socket",
        "setsockopt",
        "fcntl",
        "personality",
        "prctl",
        "seccomp",
        "kexec_load",
        "init_module",
        "quotactl",
    ),
)


def test_profile_allows_each_call_once_and_none_of_the_dangerous_ones_unconditionally() -> None:
    names = ALLOWED
    assert len(names) == len(set(names))
    assert not set(names) & set(REFUSED)
    rules = json.loads(profile())["syscalls"]
    unconditional = {
        name for rule in rules if rule["action"] == "SCMP_ACT_ALLOW" and "args" not in rule for name in rule["names"]
    }
    assert unconditional == set(names)
    assert json.loads(profile())["defaultAction"] == "SCMP_ACT_ERRNO"
    silent = [rule["names"] for rule in rules if rule.get("errnoRet") == 0]
    assert silent == [["sync", "syncfs"], *[["setsockopt"]] * len(BUFFER_OPTIONS)]


def test_internet_sockets_are_streams_and_datagrams() -> None:
    rules = [rule["args"] for rule in json.loads(profile())["syscalls"] if rule["names"] == ["socket"]]
    kinds = [args[1] for args in rules if args[0]["value"] in (2, 10)]
    assert len(kinds) == 12
    assert all(one["op"] == "SCMP_CMP_MASKED_EQ" and one["value"] == 0xF and one["valueTwo"] in (1, 2) for one in kinds)


def allowed(call: str, place: int) -> set[int]:
    """Return the values of an argument with which the profile allows a call."""
    rules = [one for one in json.loads(profile())["syscalls"] if call in one["names"]]
    return {
        arg["value"]
        for one in rules
        if one["action"] == "SCMP_ACT_ALLOW"
        for arg in one["args"]
        if arg["index"] == place
    }


def test_nothing_that_the_kernel_compiles_or_keeps_for_the_machine_is_allowed() -> None:
    assert not allowed("prctl", 0) & {22, 35, 67, 0x53564D41}
    rules = [rule["args"] for rule in json.loads(profile())["syscalls"] if rule["names"] == ["setsockopt"]]
    assert all(len(args) == 2 for args in rules), "a whole level is allowed"
    pairs = {(args[0]["value"], args[1]["value"]) for args in rules}
    filters = {(1, option) for option in (26, 27, 44, 50, 51, 52)}
    groups = {(0, option) for option in (4, 16, 17, *range(35, 49))}
    groups |= {(41, option) for option in (6, 20, 21, 27, 28, 32, 34, 35, *range(42, 49), 54, 55, 57, 59)}
    assert not pairs & (filters | groups | {(17, 100), (6, 14), (6, 31), (6, 38)})
    assert {(1, 2), (6, 1), (41, 26), (0, 1)} <= pairs, "SO_REUSEADDR, TCP_NODELAY, IPV6_V6ONLY and IP_TOS"
