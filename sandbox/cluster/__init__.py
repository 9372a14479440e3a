"""Cluster: sandboxes of every node of a Ray cluster, through one actor per node.

``node`` keeps a ``SandboxNode`` actor on every node, whose ``lease_server`` leases sandboxes to the workers'
``client``: a lease is a connection, by unix socket on the same node and by TCP from another (``leased_connection``).

Invariants: the death of a node actor ends its sandboxes, and the death of a worker ends its leases.
To add a setting, add a field to ``node.SandboxSettings`` and use it there.
"""
