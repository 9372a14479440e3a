"""One training run from start to end: identity, initial state, preparation, training loop, summary.

Invariant: a run is its name, and its processes may be killed at any moment. The same command resumes it from its newest
intact checkpoint. The modules share the frozen ``RunContext`` and the mutable ``RunState``; none of them takes the
``Driver``.

To add a step, give it a module that takes the context, and call it from ``preparation`` (before training), ``loop``
(per update) or ``run`` (after training). To add a value that survives a resume, write it in
``RunState.checkpoint_json`` and read it in ``Preparation``.
"""
