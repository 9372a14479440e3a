"""The text environment of the quick start: no browser, no sandbox, a closed vocabulary.

To add a family of tasks, add a builder in ``instances`` and its actions in ``env``.
"""
