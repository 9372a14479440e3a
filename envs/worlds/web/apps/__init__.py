"""Three web apps with tasks that are graded on the database at the end: a shop, an issue tracker, a wiki with a forum.

``env`` is the environment; ``worlds/`` draws the initial data, ``tasks/`` the goals; ``state`` opens the database of
the sandbox and compares it. ``server/`` holds the apps themselves, which the image ``web`` contains;
``server.main`` serves one.

Invariant: the expected state and the answer never enter the sandbox. The database is one file, complete after each
response, and is only ever read here, as a file that may hold anything.

To add an app: a package in ``server/`` with its site, schema and templates, a module in ``worlds/`` and one in
``tasks/``, listed in ``tasks/__init__.py``.
"""
