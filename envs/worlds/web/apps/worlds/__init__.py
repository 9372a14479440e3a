"""The initial data of each app: ``world(seed)`` returns ``today`` and ``tables`` as JSON values.

Invariant: ``world`` is a pure function of the seed.

``words.toml`` holds the words that it draws from.

To add a table, add its rows here and its schema to ``server/schemas/``.
"""
