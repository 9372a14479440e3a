"""Weight transports: the ways of weights from the learner to the engines.

* ``shm``: memory that the engines on the learner's host map.
* ``collective``: a process group of the learner and the workers of one engine; NCCL between GPUs, gloo otherwise.
* ``ipc``: the learner's own memory, for an engine on its GPU.

Invariant: an engine loads one complete version or ends; it never serves a mixture of two versions.
To add a transport, write a class with the methods of ``base.WeightTransport``, and register it under a name by an entry
point of the group ``turnwise.weight_transports``.
"""
