"""Errors of the learner that the driver of a run handles; importable without torch."""

from ...errors import TurnwiseError


class RankFailed(TurnwiseError):
    """A rank of the learner died or does not answer. All ranks are ended; the last checkpoint is whole."""
