"""The client of OpenAI-compatible chat APIs, which the player of ``turnwise eval`` and the judge share.

Invariant: a request ends with a text of the model, or with an error that names its cause and the party that caused it:

* ``PolicyFailed``: the model answered without a text, or too late. A success rate counts the episode.
* ``ContextOutgrown``: the conversation no longer fits. The episode is truncated, and a success rate counts it.
* ``EngineFailed``: the server failed. No success rate counts the episode.

To support the wording of another server, extend ``rejection.py``.
"""
