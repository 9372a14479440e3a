"""Rollouts: play episodes and groups, and record each turn in the store.

Invariant: a failure is a status of the episode, never a reward; every wait has a timeout.
To add a way to play an episode, write one file with an `episode.EpisodeRunner`, and add it to `runners.RUNNERS`.
"""
