"""Slot ``prompt_prefix``: the text before the environment's instructions; it becomes ``Group.prompt_prefix``.

To add a prompt prefix, add a file with one subclass of ``PromptPrefix``.
"""
