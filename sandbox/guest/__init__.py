"""Guest agent: the only turnwise process inside a sandbox.

The host copies this package into every sandbox, and the Python of the sandbox's image (3.9 or newer) runs it. The
package therefore imports only itself and a small part of the standard library. The host imports ``frames`` and
``users`` too.

The agent connects to the host (a unix socket, or TCP with a token) and answers one request at a time, while streams
move next to it. In a container, the agent is root with five capabilities (SETUID, SETGID, KILL, DAC_OVERRIDE, FOWNER)
and every command runs as one of the users of the sandbox. Under bubblewrap, the agent and the commands share one user;
the agent is protected because it is process 1 of its pid namespace, which no signal from within can end, and because it
is not dumpable, so no process can trace it.

Invariants:

* A command that exceeds its timeout or its output limit is killed together with every process started since the command
  began, including processes in other sessions. The agent applies the output limit, so a flood never leaves the sandbox.
* The agent never waits for a pipe that only a background process still holds open.
* The agent reads and writes files with the rights of a sandbox user, so a link gives access to nothing new. It neither
  reads nor writes files of the kernel (``/proc``, ``/sys``), because some of them describe or change the agent itself.
* The agent decodes no text that a command controls, such as the name of a process.
* If files or processes of the commands prevent an operation, the answer has ``error``, and the sandbox stays usable. If
  the agent itself fails, the answer has ``failure``, and the host ends the sandbox.
* The agent exits, and the sandbox with it, when the host closes the socket or the sandbox's time to live ends.

To add an operation, add a method ``do_NAME`` to ``server.Server`` and a caller to ``sandbox.sandbox.Sandbox``.
"""
