"""The transport ``collective``: broadcasts of buckets of parameters from the learner to the workers of an engine.

* Each engine has a process group of its own with rank 0 of the learner, so the death of one engine affects no other.
* Sharded weights are gathered one parameter at a time. Each side holds two buckets and one whole parameter at most.
* Every wait has a timeout, and its error names the reason. A dead peer ends a wait at once, because its sockets close.

Whoever reaches the learner's port can join a group in place of an engine. Ports are open on loopback, or, if engines
run on other hosts, in the network of the Ray cluster.
"""

from .receiver import CollectiveReceiver
from .sender import CollectiveSender


class CollectiveTransport:
    """A process group per engine."""

    sender, receiver = CollectiveSender, CollectiveReceiver
