"""The changes of one column or row that ``turnwise db check`` does not find, with the reasons why each may happen.

``tests/store/maintenance/integrity/test_tampering.py`` makes every change and holds these lists against the check;
``docs/store.md`` shows them.
"""

COLUMNS: dict[str, str] = {
    "blob.created_at": "a writer renews it, and only garbage collection reads it",
}
"""Columns, by ``table.column``."""
ROWS: dict[str, str] = {
    "step deleted": "the last turn of a running trajectory: its turns are counted at its end, and a power failure may "
    "take the newest ones",
}
"""Changes of whole rows, by table and change."""
