"""The images of a store, whole or as a policy saw them: in another size, or a part of them."""

import re
from io import BytesIO

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from ...agents.engine.images import RefusedImage, decoded
from ...errors import TurnwiseError
from ...store.database import Database
from ...store.exchange.images import image_type
from .pages.episode.pictures import Part, Size, is_part, png_size
from .trouble import status_of

HASH = re.compile(r"[0-9a-f]{64}")
SIZE = re.compile(r"([1-9][0-9]{0,4})x([1-9][0-9]{0,4})")
PART = re.compile(r"([0-9]{1,5}),([0-9]{1,5}),([1-9][0-9]{0,4}),([1-9][0-9]{0,4})")
PIXELS_MAX = 2**23
"""Pixels of an image that is resized, before and after; a screen of 3840 x 2160 has fewer."""
HEADERS = {
    "Cache-Control": "private, max-age=31536000, immutable",
    "Content-Security-Policy": "default-src 'none'; sandbox; frame-ancestors 'none'",
}


def image(database: Database, request: Request) -> Response:
    """Return a stored image; with ``size=WIDTHxHEIGHT``, in that size, resized as an image processor does. With
    ``part=LEFT,TOP,WIDTH,HEIGHT`` too, this part of it.

    Raises:
        HTTPException: there is no such image, it cannot be resized, or the size or the part is not one.
    """
    name, asked = request.path_params["hash"], request.query_params.get("size")
    cut = request.query_params.get("part")
    if not HASH.fullmatch(name):
        raise HTTPException(404)
    try:
        with database.read() as conn:
            content = database.blobs.get(conn, name)
    except TurnwiseError as error:
        raise HTTPException(status_of(error)) from error
    if asked is not None:
        found, part = SIZE.fullmatch(asked), None if cut is None else PART.fullmatch(cut)
        if found is None or (cut is not None and part is None):
            raise HTTPException(400)
        box = None if part is None else (int(part[1]), int(part[2]), int(part[3]), int(part[4]))
        content = _resized(content, (int(found[1]), int(found[2])), box)
    kind = image_type(content)
    if kind is None:
        raise HTTPException(404)
    return Response(content, media_type=kind, headers=HEADERS)


def _resized(content: bytes, size: Size, part: Part | None) -> bytes:
    """Return a PNG, or a part of it, in another size, by the bicubic filter of the usual image processors."""
    from PIL import Image

    before = png_size(content)
    if before is None:
        raise HTTPException(404)
    if max(before[0] * before[1], size[0] * size[1]) > PIXELS_MAX or (part is not None and not is_part(part, before)):
        raise HTTPException(400)
    try:
        picture = decoded(content)
    except RefusedImage as error:
        raise HTTPException(404) from error
    file = BytesIO()
    left, top, width, height = part or (0, 0, *before)
    box = (left, top, left + width, top + height)
    picture.resize(size, Image.Resampling.BICUBIC, box).save(file, "PNG", compress_level=1)
    return file.getvalue()
