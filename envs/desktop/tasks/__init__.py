"""``turnwise/Desktop-v0``: task templates on real applications, and the splits that hold some of them out.

``applications/`` holds the templates; ``template`` defines what one is, ``acts`` are the actions of solutions,
``expected`` compares the end state of the desktop with the expected one, ``catalog`` lists all templates
and holds instances, templates or an application out, and ``env`` is the environment.

Invariant: the expected end state never enters the sandbox, and covers everything that a task could change.

To add a template: see ``applications``. On a real desktop, its solution must succeed and its near misses must fail;
``tests/envs/desktop/tasks/test_templates.py`` verifies it.
"""
