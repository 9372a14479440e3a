"""Tokens of a conversation: token in, token out, through the chat template of the model.

Invariant: a sampled token is never decoded and encoded again; observations and template text have mask 0.
To support another family of chat templates, add a file in ``renderers``.
"""
