"""Rollouts: play episodes and groups, and record each turn in the store.

Invariant: a failure is a status of the episode, never a reward; every wait has a timeout.
To add a way of playing, write a function that takes the arguments of `episode.play_episode`.
"""
