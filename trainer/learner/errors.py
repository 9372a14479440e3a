"""Errors of the learner that the driver of a run handles; importable without torch."""

from ...errors import TurnwiseError


class RankFailed(TurnwiseError):
    """A rank of the learner died or does not answer. All ranks are ended; the last checkpoint is whole."""


class RanksLate(RankFailed):
    """The ranks of the learner did not start in time, for example because the cluster has too few GPUs."""
