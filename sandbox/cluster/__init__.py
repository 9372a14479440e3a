"""Lease sandboxes across a Ray cluster: one node actor per node, its supervisor and its client."""
