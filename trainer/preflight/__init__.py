"""Every reason why a run, an evaluation, a branch or a plan cannot start: all at once, the cheapest check first.

Invariant: a check starts nothing that outlives it, stores nothing, and yields one ``Refusal`` per reason. A module of
this folder whose name is imported in ``check`` imports neither torch nor transformers; ``model_files`` and
``token_ids`` do, and are imported when a model is checked.

To add a refusal, write a function with the decorator ``refuses`` in the module of its topic: ``devices``,
``environments``, ``forgeable``, ``memory``, ``model``, ``sight`` or ``store``.
"""
