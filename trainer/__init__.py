"""Train and evaluate language-model agents: load a configuration, train a run of it, evaluate any policy.

Invariant: the folders are floors, and each imports only those below it: ``run``, ``evaluation``, ``preflight``,
``cluster`` and ``planning``, ``warmup`` and ``rollout``, ``learner``, ``config``, ``algorithms``, ``telemetry``. The
public functions are those of ``turnwise`` itself.
"""
