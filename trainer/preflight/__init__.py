"""Every reason why a model folder cannot be trained or evaluated, found before Ray starts.

Invariant: nothing is started, no weights are read, and each refusal is one line that names the file or key to change.

To add a check of a model, call it in ``model.refuse_unusable``.
"""
