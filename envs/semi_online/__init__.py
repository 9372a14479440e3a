"""``turnwise/SemiOnline-v0``: stored episodes of an expert as tasks; the policy answers each of their observations.

``expert`` is the file of episodes; ``env`` plays, and decides whether an action is the expert's.

Invariant: an observation is always the expert's own, whatever the policy did. To compare actions in another way, name a
function in the option ``matcher``.
"""
