"""Success on held-out tasks, inside a run and stand-alone, with 95 % intervals, and new episodes from stored ones.

Invariant: with the same environments and the same evaluation seed, every policy plays the same tasks. The episodes of
an evaluation are never trained on, except for those of an expert on the training split. Failed episodes are counted
separately, and no rate includes them.

``session`` is a run of its own with the players of one ``policy``; ``tasks`` and ``branch`` play in it. To evaluate
another kind of policy, extend ``policy.Policy``. To play something else, call ``Session.play``.
"""
