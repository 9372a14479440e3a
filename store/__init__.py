"""The trajectory store: an SQL database and a folder of blobs, which together are the queue, the memory and the
record of a run.

``database`` opens it, ``operations`` names every write, ``writer`` commits them in groups, ``queries`` reads,
``groups`` is the state machine that makes a table of groups the queue between rollout and learner. Nothing is ever
deleted here.
"""
