"""Success on held-out tasks, inside a run and stand-alone, with 95 % intervals.

Invariant: every policy and every run plays the same held-out tasks, once each, and never trains on them. Episodes that
failed because of their environment are counted apart and enter no rate.

To evaluate another kind of policy, add a function that plays a group to ``standalone``, and pass it to ``play_tasks``.
"""
