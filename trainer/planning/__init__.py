"""The sizes of a run, computed from its configuration before anything starts (``turnwise plan``).

Invariant: every size is arithmetic on the configurations of the run and of its model. No weights are read, and neither
torch nor vLLM is imported. A size that only a measurement can give is a constant whose docstring names the measurement.

To plan for another part of a process, add it to ``learner_memory``, ``engine_memory`` or ``processes``.
"""
