"""MiniWoB++ as environments: ``env`` opens and scores a task; ``tasks`` lists the tasks and their properties.

To change which pages are reused in place: ``tasks.NOT_IN_PLACE``, verified by a test that plays both ways.
"""
