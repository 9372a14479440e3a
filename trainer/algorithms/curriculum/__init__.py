"""Slots ``task_sampler``, ``group_size``, ``prompt_prefix`` and ``horizon``: which task, how many episodes of it, with
which prompt, for how long.
"""
