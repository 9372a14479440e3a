"""The desktop driver: runs inside the sandbox, under the Python and python-xlib of the image ``desktop``.

It imports the standard library, python-xlib and its own modules, and nothing else of turnwise. ``server`` answers one
request at a time on a unix socket; ``session`` owns the X server, the bus and the window manager; ``episode`` starts
applications and resets the desktop; ``act`` executes actions with ``screen`` and ``keyboard``; ``settle`` waits for
their effects; ``tree`` reports the elements, ``png`` the picture.

Invariant: whatever an application does (a grab, an endless loop, a flood of windows, a crash), a request ends within
its deadline, if necessary with a new session.

To add an action: a function in ``act.VERBS``, and the verb in ``envs/desktop/actions.py``.
"""
