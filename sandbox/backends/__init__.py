"""Backends: start, list and remove sandboxes with one container technology per file.

Invariants: a backend starts every sandbox with the limits of its spec and without network, and no sandbox outlives its
owner by more than a minute. To add a backend, implement ``protocol.BackendClass`` and ``protocol.Backend``, here or in
another package, register the class by an entry point of the group ``turnwise.sandbox_backends``, and run
`turnwise sandbox check --backend NAME`.
"""
