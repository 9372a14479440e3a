"""Slots ``task_sampler``, ``prompt_prefix`` and ``horizon``: which task, with which prompt, for how long."""
