"""Families of procedural code tasks, each a module: a pure function from a draw to a task with its solution and the
wrong solutions that must fail. Its instruction and its programs stand in the TOML file of its name.

Invariant: the hidden cases cover every rule of the instruction, at its limits too, and the instruction states nothing
that no check holds to. To add a family, write both files, add it to ``instances.FAMILIES``, and run
``soak.py --parts mutants``: a mutant of the solution that passes is a hole, or gets an entry with the reason in
``tests/envs/worlds/code/families/equivalent_mutants.toml``.
"""
