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
        "kexec_load",
        "init_module",
        "quotactl",
    ),
)


def test_profile_allows_each_call_once_and_none_of_the_dangerous_ones_unconditionally() -> None:
    names = [name for group in ALLOWED.values() for name in group.split()]
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
