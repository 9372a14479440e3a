"""The images of a store, whole or in the size in which a policy saw them."""

import re
from io import BytesIO

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from ...agents.engine.images import RefusedImage, decoded
from ...errors import TurnwiseError
from ...store.database import Database
from ...store.exchange.images import image_type
from .pages.episode.pictures import Size, png_size
from .trouble import status_of

HASH = re.compile(r"[0-9a-f]{64}")
SIZE = re.compile(r"([1-9][0-9]{0,4})x([1-9][0-9]{0,4})")
PIXELS_MAX = 2**23
"""Pixels of an image that is resized, before and after; a screen of 3840 x 2160 has fewer."""
HEADERS = {
    "Cache-Control": "private, max-age=31536000, immutable",
    "Content-Security-Policy": "default-src 'none'; sandbox; frame-ancestors 'none'",
}


def image(database: Database, request: Request) -> Response:
    """Return a stored image; with ``size=WIDTHxHEIGHT``, in that size, resized as an image processor does.

    Raises:
        HTTPException: there is no such image, it cannot be resized, or the size is not one.
    """
    name, asked = request.path_params["hash"], request.query_params.get("size")
    if not HASH.fullmatch(name):
        raise HTTPException(404)
    try:
        with database.read() as conn:
            content = database.blobs.get(conn, name)
    except TurnwiseError as error:
        raise HTTPException(status_of(error)) from error
    if asked is not None:
        found = SIZE.fullmatch(asked)
        if found is None:
            raise HTTPException(400)
        content = _resized(content, (int(found[1]), int(found[2])))
    kind = image_type(content)
    if kind is None:
        raise HTTPException(404)
    return Response(content, media_type=kind, headers=HEADERS)


def _resized(content: bytes, size: Size) -> bytes:
    """Return a PNG in another size, by the bicubic filter of the usual image processors."""
    from PIL import Image

    before = png_size(content)
    if before is None:
        raise HTTPException(404)
    if max(before[0] * before[1], size[0] * size[1]) > PIXELS_MAX:
        raise HTTPException(400)
    try:
        picture = decoded(content)
    except RefusedImage as error:
        raise HTTPException(404) from error
    file = BytesIO()
    picture.resize(size, Image.Resampling.BICUBIC).save(file, "PNG", compress_level=1)
    return file.getvalue()
