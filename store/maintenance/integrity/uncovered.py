"""The changes of one column or row that ``turnwise db check`` does not find, with the reasons why each may happen.

``tests/store/maintenance/integrity/test_tampering.py`` makes every change and holds these lists against the check;
``docs/store.md`` shows them.
"""

COLUMNS: dict[str, str] = {
    "blob.created_at": "a writer renews it, and only garbage collection reads it",
    "rollout_group.no": "that of an open group without members, to which no other row refers yet",
    "trajectory.no": "that of a running trajectory without turns, to which no other row refers yet",
}
"""Columns, by ``table.column``."""
ROWS: dict[str, str] = {
    "trajectory deleted": "a running one without turns: it holds nothing yet. The trajectories of a group are counted "
    "when the group closes, because a count at each start would make all workers wait for one row",
    "step deleted": "the last turn of a running trajectory: its turns are counted at its end, and a power failure may "
    "take the newest ones",
}
"""Changes of whole rows, by table and change."""
