"""The desktop driver: runs inside the sandbox, under the Python and python-xlib of the image ``desktop``.

It imports the standard library, python-xlib and its own modules, and nothing else of turnwise. ``server`` answers one
request at a time on a unix socket; ``session`` connects to the X server and the bus; ``episode`` starts applications
and resets the desktop; ``act`` executes actions with ``screen`` and ``keyboard``;
``accessibility`` reports the elements, ``screen`` the picture; ``baseline`` compares the desktop with its start.

The applications, and the servers that they share, run as another user of the sandbox, whose processes and files
``user/`` owns.

Invariants: the agent's programs cannot change what the driver answers, except by what they show on the desktop; and
whatever an application does (a grab, an endless loop, a flood of windows, a crash), a request ends within its
deadline, if necessary with a new session.

To add an action: a function in ``act.VERBS``, and the verb in ``envs/worlds/desktop/actions.py``.
"""
