"""Re-execution: the actions of a stored trajectory, executed again in a fresh environment.

``reexecute`` compares the results with the stored ones, for one trajectory or for many at the same time. ``stored``
loads a trajectory, and ``compare`` holds the comparisons and shows the difference of two texts.
``continuation`` brings an environment to a step of a trajectory, from where another player plays on.

Invariant: nothing here changes a stored trajectory. To compare another part of a trajectory, add it to ``compare``.
"""
