"""Success on held-out tasks, inside a run and stand-alone, with 95 % intervals.

Invariant: with the same environments and the same evaluation seed, every policy plays the same tasks. The episodes of
an evaluation are never trained on, except for those of an expert on the training split. Failed episodes are counted
separately, and no rate includes them.

To evaluate another kind of policy, add a function that plays a group to ``standalone``, and pass it to ``play_tasks``.
"""
