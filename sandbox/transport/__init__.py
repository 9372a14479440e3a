"""Transport: requests from the host to the guest agent of one sandbox, and the agent's answers.

The host listens on a unix socket in a folder that the sandbox mounts read-only, and the guest agent connects to it.
Invariants: one request is answered before the next is sent, and closing the connection ends the sandbox. The frame
codec is ``guest.frames``, which both sides use.

To add a transport, implement ``connection.Connection`` and pass it to ``sandbox.Sandbox``.
"""
