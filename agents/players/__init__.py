"""Players: the policy, baselines, and models behind a chat API.

Invariant: a player acts; it neither steps the environment nor writes to the store.
To add a player, write one file with a class that implements `rollout.player.Player`.
"""
