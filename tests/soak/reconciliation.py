"""Check the store of a finished run, whatever was killed while it trained."""

import json
from pathlib import Path

from sqlalchemy import Connection, text
from turnwise.tests.chaos.harness import abandoned_batches, check_finished, command, reading

CONSUMED = """
SELECT g.id, count(b.group_no) FROM rollout_group g JOIN run r ON r.no = g.run_no
LEFT JOIN batch_group b ON b.group_no = g.no AND b.fresh AND NOT b.abandoned
WHERE r.id = :run GROUP BY g.id, g.state HAVING count(b.group_no) <> CASE WHEN g.state = 'consumed' THEN 1 ELSE 0 END
"""
"""Groups that are in a number of surviving batches that does not follow from their state."""
UNENDED = """
SELECT g.id, g.state FROM rollout_group g JOIN run r ON r.no = g.run_no
WHERE r.id = :run AND g.state IN ('open', 'scoring', 'leased')
"""
VERSIONS = """
SELECT v.update_no FROM policy_version v JOIN run r ON r.no = v.run_no
WHERE r.id = :run AND NOT v.abandoned AND v.update_no >= 0 ORDER BY v.update_no
"""
"""Without the version before the warm-up, which is update -1."""
ITEMS = """
SELECT t.id FROM batch_item i JOIN run r ON r.no = i.run_no JOIN trajectory t ON t.no = i.trajectory_no
WHERE r.id = :run AND NOT i.abandoned AND NOT EXISTS (
    SELECT 1 FROM batch_group b WHERE b.group_no = t.group_no AND b.run_no = i.run_no AND b.version_id = i.version_id
    AND b.fresh = i.fresh AND NOT b.abandoned
)
"""
"""Trajectories that an update trained on without their group."""


def reconcile(folder: Path, run: str, updates: int, resumes: int) -> None:
    """Check all counters of a finished run, and every row and blob of its store.

    Args:
        resumes: an upper bound of the times that the run went back to a checkpoint; each repeats at most the two
            updates after it.

    Raises:
        AssertionError: a counter does not agree, or a row was altered or lost.
    """
    check_finished(folder, run, updates)
    with reading(folder) as conn:
        assert _rows(conn, CONSUMED, run) == [], "groups that are not in exactly one update"
        assert _rows(conn, UNENDED, run) == [], "groups that never ended"
        assert _rows(conn, ITEMS, run) == [], "trajectories that were trained on without their group"
        made = [row[0] for row in _rows(conn, VERSIONS, run)]
        assert made == list(range(updates + 1)), f"a gap in the versions: {made}"
    repeated = abandoned_batches(folder)
    assert repeated <= 2 * resumes, f"{repeated} updates were repeated by at most {resumes} resumes"
    checked = command(folder, "db", "check", "--content", "--json")
    assert checked.returncode == 0, checked.stdout[-2000:] + checked.stderr[-2000:]
    assert json.loads(checked.stdout)["findings"] == 0


def _rows(conn: Connection, query: str, run: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in conn.execute(text(query), {"run": run})]
