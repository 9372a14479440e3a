"""The initial data of each app: ``world(seed)`` returns ``today`` and ``tables`` as JSON values, a pure function.

To add a table: its rows here, and its schema in ``server/<app>/base.py``.
"""
