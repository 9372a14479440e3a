"""Check, play and create environments: the commands `turnwise envs check`, `play` and `new`.

To add a check, add a coroutine to ``checks.CHECKS``.
"""
