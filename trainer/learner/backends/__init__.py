"""Where the policy is trained: in this process, or on several ranks.

Invariant: nothing outside a backend touches a model or an optimizer. Weights leave through ``save`` and ``weights``.
To add a backend, write a class with the methods of ``base.LearnerBackend``, add its name to ``learner.backend`` in
``trainer.config.sections``, and start it in ``run.preparation.load_learner``.
"""
