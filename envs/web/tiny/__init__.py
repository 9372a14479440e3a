"""Small web tasks in few words, for policies trained from scratch: ``env``, and ``login`` for the held-out sites.

To add a task: its name in ``env.TRAINED`` or ``env.HELD_OUT``, and in ``oracle`` if it is trained on.
"""
