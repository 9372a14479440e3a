"""The step server: the one process of turnwise inside a sandbox. Copied into every box and run there by the box's own
Python, so it imports nothing but the standard library, as little of it as it can, and itself.

It dials out to the host over a unix socket, then answers one request at a time. In a container it is root with four
capabilities (SETUID, SETGID, KILL, DAC_OVERRIDE) and everything it runs is another user; under bubblewrap it is the
same user as what it runs, and safe from it as the first process of its namespace, which no signal from within can end,
and by not being dumpable, so that none may trace it. What it sees to:

* a command that overruns its deadline, or prints more than its cap, is killed with everything started since it
  began, sessions of their own included; the cap is applied here, so that a flood never leaves the box;
* a pipe that some background child still holds is never waited for;
* files are read and written with the payload's rights, so no link leads anywhere the payload could not go;
* it ends, and the box with it, when the host's end of the socket closes or its time to live is over.
"""
