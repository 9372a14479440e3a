"""Transport: requests from the host to the guest agent of one sandbox, the agent's answers, and streams next to them.

The host listens, on a unix socket in a folder that the sandbox mounts read-only or on TCP with a token, and the guest
agent connects. Invariants: one request is answered before the next is sent, a stream never holds more than its window,
and closing the connection ends the sandbox. The frame codec is ``guest.frames``, which both sides use.

To add a transport, add a ``listener.Listener`` and let ``guest.server.connect`` reach it.
"""
