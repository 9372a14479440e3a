"""Operate a screen in a sandbox: the shared base of web environments and other environments of windows and elements.

``driver_client`` leases a sandbox, starts a driver in it and exchanges requests with it; ``env`` is the episode;
``calls`` parses actions; ``elements`` names the roles of elements and renders them as numbered text.
``templates`` draws tasks, and registers their templates.

Invariant: nothing here depends on a kind of screen; ``web`` and ``desktop`` import this package, never the reverse.

To add a kind of screen: write a driver package (a unix socket, one request per connection, see ``driver_client``),
describe it with a ``DriverProgram``, let it report nodes as ``elements`` describes them, and subclass
``env.ScreenEnv``.
"""
