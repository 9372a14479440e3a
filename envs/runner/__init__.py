"""Run one environment: a thread, a timeout per call, and checked results.

Every failure of an environment arrives as an ``EnvError``; nothing else leaves this folder. To add a key of ``info``,
add it to ``step_result``.
"""
