"""Ray and the actors of a run: engines, rollout workers, store writer, sandbox nodes, watchdog.

Invariant: every process that is started here ends with the driver, even if the driver is killed. No actor reserves a
CPU with Ray.

To add an actor, start it in ``Cluster.start``, wait for it in ``Cluster.ready``, and end it in ``Cluster.close``.
"""
