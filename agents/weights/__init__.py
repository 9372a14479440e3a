"""Weight transfer: from the learner to the engines.

Invariant: an engine loads one complete version or fails; it never serves a mixture of two versions.
To add a transport, write its two sides, as `shm_writer` and `shm_receiver` do, and register the receiver with vLLM.
"""
