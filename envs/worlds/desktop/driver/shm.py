"""Capture the screen through MIT-SHM: the X server writes the pixels into memory shared with this process."""

from __future__ import annotations

import ctypes
from typing import Any

from Xlib.protocol import rq

EXTENSION = "MIT-SHM"
IPC_PRIVATE, IPC_CREATE, IPC_REMOVE = 0, 0o1000, 0
Z_PIXMAP = 2
ALL_PLANES = 0xFFFFFFFF


class Attach(rq.Request):  # type: ignore[misc]
    """Attach a shared memory segment to the X server."""

    _request = rq.Struct(
        rq.Card8("opcode"),
        rq.Opcode(1),
        rq.RequestLength(),
        rq.Card32("segment"),
        rq.Card32("shmid"),
        rq.Bool("read_only"),
        rq.Pad(3),
    )


class GetImage(rq.ReplyRequest):  # type: ignore[misc]
    """Write a rectangle of a drawable into a segment."""

    _request = rq.Struct(
        rq.Card8("opcode"),
        rq.Opcode(4),
        rq.RequestLength(),
        rq.Drawable("drawable"),
        rq.Int16("x"),
        rq.Int16("y"),
        rq.Card16("width"),
        rq.Card16("height"),
        rq.Card32("plane_mask"),
        rq.Card8("format"),
        rq.Pad(3),
        rq.Card32("segment"),
        rq.Card32("offset"),
    )
    _reply = rq.Struct(
        rq.ReplyCode(),
        rq.Card8("depth"),
        rq.Card16("sequence_number"),
        rq.ReplyLength(),
        rq.Card32("visual"),
        rq.Card32("size"),
        rq.Pad(16),
    )


class Capture:
    """The pixels of the root window: ``height`` rows of ``width`` times blue, green, red and an unused byte.

    Raises:
        OSError: no shared memory.
    """

    def __init__(self, display: Any, width: int, height: int) -> None:
        self.display, self.width, self.height = display, width, height
        self.opcode = display.query_extension(EXTENSION).major_opcode
        libc = ctypes.CDLL(None, use_errno=True)
        libc.shmat.restype = ctypes.c_void_p
        libc.shmdt.argtypes = [ctypes.c_void_p]
        # The X server runs as another user.
        shmid = libc.shmget(IPC_PRIVATE, width * height * 4, IPC_CREATE | 0o666)
        if shmid < 0:
            raise OSError(ctypes.get_errno(), "no shared memory for the screen")
        self.address = libc.shmat(shmid, None, 0)
        self.detach = libc.shmdt
        self.segment = display.display.allocate_resource_id()
        Attach(display.display, opcode=self.opcode, segment=self.segment, shmid=shmid, read_only=0)
        display.sync()
        # The segment lives until both processes detach or end.
        libc.shmctl(shmid, IPC_REMOVE, None)
        self.pixels = memoryview((ctypes.c_ubyte * (width * height * 4)).from_address(self.address)).cast("B")

    def take(self) -> memoryview:
        """Return the pixels as they are now; the memory is overwritten by the next call."""
        GetImage(
            display=self.display.display,
            opcode=self.opcode,
            drawable=self.display.screen().root,
            x=0,
            y=0,
            width=self.width,
            height=self.height,
            plane_mask=ALL_PLANES,
            format=Z_PIXMAP,
            segment=self.segment,
            offset=0,
        )
        return self.pixels

    def close(self) -> None:
        """Release the memory."""
        self.pixels.release()
        self.detach(self.address)
