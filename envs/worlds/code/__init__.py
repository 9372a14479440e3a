"""Code environments: an agent in a repository with a shell, graded in a fresh sandbox on the files it submits.

``turnwise/Code-v0`` is for language models, ``turnwise/TinyCode-v0`` for policies trained from scratch in minutes.
Invariants:

* hidden checks, solutions and git history are never in the agent's sandbox;
* grading uses only the files of the agent's sandbox;
* the expected output of a ``Case`` never enters a sandbox.

To add a family of tasks, add a module to ``families`` and list it in ``instances.FAMILIES``.
"""
