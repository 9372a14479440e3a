"""An end of the guest agent is the fault of the sandbox's commands only if its own memory limit caused it."""

import pytest
from turnwise.sandbox.guest import processes as watch
from turnwise.sandbox.guest.processes import MemoryRecord, ending


@pytest.mark.parametrize(
    ("ooms", "hits", "share", "limit_killed"),
    [
        ((1, 1), (1, 1), 1.0, False),
        ((1, 2), (3, 4), 0.0, True),
        ((1, 2), (3, 3), 1.0, False),
        ((1, 2), (None, None), 0.9, True),
        ((1, 2), (None, None), 0.1, False),
    ],
    ids=["killed by a person", "limit", "memory of the host", "limit, version 1", "memory of the host, version 1"],
)
def test_the_limit_and_the_host_are_told_apart(
    monkeypatch: pytest.MonkeyPatch,
    ooms: tuple[int, int],
    hits: tuple[int | None, int | None],
    share: float,
    limit_killed: bool,
) -> None:
    record = MemoryRecord()
    for number in (0, 1):
        monkeypatch.setattr(watch, "count_ooms", lambda number=number: ooms[number])
        monkeypatch.setattr(watch, "count_limit_hits", lambda number=number: hits[number])
        monkeypatch.setattr(watch, "memory_share", lambda: share)
        if not number:
            record.update()
    assert record.limit_killed() is limit_killed


@pytest.mark.parametrize(
    ("code", "limit_killed", "broken"), [(-9, True, True), (-9, False, False), (-15, True, False), (1, False, True)]
)
def test_the_report_names_the_cause(code: int, limit_killed: bool, broken: bool) -> None:
    assert ending(code, limit_killed)["broken"] is broken
