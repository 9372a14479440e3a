"""Code environments: an agent in a repository with a shell, graded in a fresh sandbox on the files it left.

``turnwise/Code-v0`` is for language models, ``turnwise/TinyCode-v0`` for policies trained from scratch in minutes. What
always holds: hidden checks, right answers and git history are never in the box while the agent acts; nothing of that
box but its files is used afterwards; what is expected of a ``Case`` enters no box at all.
"""
