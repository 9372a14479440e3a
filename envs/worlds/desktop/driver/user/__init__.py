"""The programs and files of the desktop's user, in a process of that user that serves the driver.

``launcher`` executes the driver's calls, one at a time; ``desktop`` owns the processes that every episode shares and
the applications; ``processes`` reads and kills them, and waits until all of them rest; ``files`` restores what an
episode changed outside of its processes.

Invariant: the agent's programs, which run as the same user, can end this process but not control it, so they cannot
survive a reset. Everything that decides about an episode is in the driver, out of their reach.

To add a call: a public method of ``desktop.Desktop``, and its use through ``driver.session.UserClient``.
"""
