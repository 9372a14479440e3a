"""Small desktop tasks in few words, for policies trained from scratch: ``env``, and ``tasks`` for their instances.

To add a kind of task: a function in ``tasks.KINDS`` that draws the number on the display and the wanted one.
"""
