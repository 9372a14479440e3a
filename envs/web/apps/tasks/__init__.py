"""Task templates: functions that draw a goal, a solution, near misses and the expected state from a seeded world.

``template`` defines what a task is; ``acts`` are the words of solutions; ``catalog`` lists all templates.

To add a template: a function with ``@registry.template(kind)`` in the module of its app. On the real server, its
solution must succeed and its near misses must fail; ``tests/envs/web/apps/test_templates.py`` verifies every template.
"""
