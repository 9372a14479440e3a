"""Cluster: sandboxes of every node of a Ray cluster, through one actor per node.

``supervisor`` keeps a ``node.SandboxNode`` actor on every node, ``client`` leases from these actors, and a worker then
reaches a leased sandbox through ``node_socket`` (same node) or ``actor_call`` (another node).

Invariants: the death of a node actor ends its sandboxes, and on the same node, the death of a worker ends its leases.
To add a setting, add a field to ``settings.SandboxSettings`` and use it in ``node``.
"""
