"""Run one environment: a thread, a timeout per call, and checked results.

Invariant: a failure of an environment is raised as an ``EnvError``, never as the environment's own exception.

To add a key of ``info``, add it to ``step_result``.
"""
