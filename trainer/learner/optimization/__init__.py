"""The parts of an optimizer step that need no model: the split of a batch, the learning rate, sums, the trust region.

Invariant: a split depends on the numbers of tokens and the random stream only, so every rank computes the same one.
To add a shape of the learning rate, add it to ``learning_rate.SHAPES`` and to ``learner.lr_schedule``.
"""
