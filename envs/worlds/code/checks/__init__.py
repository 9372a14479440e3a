"""The checks of a task that the code under test cannot forge: calls and checks of files.

Invariant: the expected answer stays on the host. To add a check of files, add a class to ``file_checks``.
"""
