"""The parts of an episode's page, one concept per file: turns, tokens, pictures, timeline, branches, quotations.

Each function takes typed records of the store and returns the part as a frozen record. To add a part, write its record
and its function here, and a field in ``TrajectoryPage``.
"""
