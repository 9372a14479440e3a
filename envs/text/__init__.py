"""Environments of text alone: no browser, no sandbox.

``env`` is the site of the quick start, with a closed vocabulary for tiny models; to add a family of tasks to it, add a
builder in ``instances`` and its actions in ``env``. ``language`` holds environments for pretrained language models.
"""
