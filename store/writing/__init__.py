"""The path of writes: from an episode (``trajectory_writer``) through a queue per process (``client``) to the thread
that commits them in batches (``commit_queue``).

To add a write, add an operation (``store.operations``); nothing changes here.
"""
