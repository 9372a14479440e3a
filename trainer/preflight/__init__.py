"""Every reason why a run, an evaluation, a branch or a plan cannot start: all at once, the cheapest check first.

Invariant: a check starts nothing that outlives it, stores nothing, and yields one ``Refusal`` per reason. Importing
this folder imports neither torch nor transformers; the checks of a model and of GPUs do, when they run.

To add a refusal, write a function with the decorator ``refuses`` in the module of its topic: ``machine``,
``environments``, ``model`` or ``store``.
"""
