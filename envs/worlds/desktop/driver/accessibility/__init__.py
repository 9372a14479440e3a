"""The elements of applications: AT-SPI objects, read from their bus and reported as nodes with ARIA roles.

``dbus`` and ``dbus_wire`` speak to the bus, ``accessibles`` reads the objects, ``tree`` builds the nodes.

Invariant: an application that does not answer costs one timeout per round, and never the observation of the others.

To report another role: a row in ``roles.ROLES``.
"""
