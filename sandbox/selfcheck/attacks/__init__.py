"""Attacks that a sandbox must contain: one file per kind of target, ``selfcheck.run`` combines them.

Nothing is sent outside this machine. A second sandbox, the sibling, is watched during every attack.
"""
