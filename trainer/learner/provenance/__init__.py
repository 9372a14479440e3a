"""Provenance of an update: what the store holds so that the update can be repeated, and how it is read again.

Invariant: with the stored trajectories, the provenance determines the update. ``recipe`` is its form in the store,
``recording`` writes it, ``stored_batch`` builds the training samples of a stored update from it, and ``token_rows``
lists their tokens with the values that the update computed. ``trainer.run.retraining`` trains on them again.
"""
