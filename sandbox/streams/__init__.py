"""Streams in blocking form: to a server in a leased sandbox, to a process in it, and from a port of this machine.

Invariant: a stream ends with its lease. To add a kind of stream, add an operation to ``guest.server`` that opens it, a
method to ``sandbox.Sandbox``, and its blocking form here.
"""
