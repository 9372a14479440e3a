"""Pool: warm sandboxes of one backend, started, reset, leased and reaped within a capacity.

Invariant: idle, leased, starting and resetting sandboxes together never exceed the capacity, in number and in memory.
``pool`` has the state and the public methods. To add a figure to the pool's health, add a field to
``health.PoolHealth``.
"""
