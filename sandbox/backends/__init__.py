"""Backends: start, list and remove sandboxes with one container technology per file.

Invariants: a backend starts every sandbox with the limits of its spec and without network, and no sandbox outlives its
owner by more than a minute. To add a backend, implement ``registry.Backend`` in a file of its name, add it to
``registry``, list its requirements in ``prerequisites`` and run ``selfcheck`` on it.
"""
