"""The messages of a turn as bytes, in a format with a number, so that any program can read them, at any later time.

The first byte is the format: 1, or 2 if the rest is compressed by zlib. The rest is the messages, one after another
(``token_codec`` describes a varint):

1. the message's index (varint), its parent's index + 1 or 0 for none (varint);
2. the role (u8) and the source (u8), as positions in ``ROLES`` and ``SOURCES``;
3. the agent: the bytes of its UTF-8 (varint), and these bytes;
4. the tokens, as ``token_codec`` writes them.
"""

import zlib
from collections.abc import Mapping, Sequence

from ...records import Message, Role, Source
from .compression import inflate
from .token_codec import decode as decode_tokens
from .token_codec import encode as encode_tokens
from .token_codec import read_varint, varint

PLAIN, COMPRESSED = 1, 2
"""The formats, in the first byte."""
ROLES = (Role.SYSTEM, Role.USER, Role.ASSISTANT, Role.TOOL)
SOURCES = (
    *(Source.POLICY, Source.EXPERT, Source.PATCH, Source.REPLAY, Source.WORLD_MODEL, Source.PEER),
    *(Source.ENV, Source.TEMPLATE),
)
"""The vocabularies. Stored bytes are positions in them: a new word goes to the end."""
_ROLE_CODES = {role: bytes([code]) for code, role in enumerate(ROLES)}
_SOURCE_CODES = {source: bytes([code]) for code, source in enumerate(SOURCES)}
_COMPRESS_ABOVE = 128
"""Bytes above which compression is tried."""
_LEVEL = 1


def encode(messages: Sequence[Message]) -> bytes:
    """Return ``messages`` without their images in format 1 or 2.

    Raises:
        ValueError: the columns of a message differ in length, a value does not fit its column, or a token with mask 0
            has a log-probability.
    """
    body = b"".join(map(_encode_one, messages))
    if len(body) > _COMPRESS_ABOVE and len(smaller := zlib.compress(body, _LEVEL)) < len(body):
        return bytes([COMPRESSED]) + smaller
    return bytes([PLAIN]) + body


def decode(data: bytes, images: Mapping[int, Sequence[str]]) -> list[Message]:
    """Return the messages that ``encode`` received; ``images`` has the blob hashes of the images by message index.

    Raises:
        ValueError: ``data`` has an unknown format, or was altered.
    """
    try:
        body, at = _body(data), 0
        messages = []
        while at < len(body):
            message, at = _decode_one(body, at, images)
            messages.append(message)
    except (ValueError, IndexError) as error:
        raise ValueError(f"{len(data)} bytes are not messages in a known format: {error}") from error
    return messages


def _encode_one(message: Message) -> bytes:
    agent = message.agent.encode(errors="surrogatepass")
    return b"".join(
        (
            varint(message.index),
            varint(0 if message.parent is None else message.parent + 1),
            _ROLE_CODES[message.role],
            _SOURCE_CODES[message.source],
            varint(len(agent)),
            agent,
            encode_tokens(message),
        )
    )


def _decode_one(body: bytes, at: int, images: Mapping[int, Sequence[str]]) -> tuple[Message, int]:
    index, at = read_varint(body, at)
    parent, at = read_varint(body, at)
    role, source = ROLES[body[at]], SOURCES[body[at + 1]]
    size, at = read_varint(body, at + 2)
    agent = body[at : at + size].decode(errors="surrogatepass")
    columns, at = decode_tokens(body, at + size)
    return (
        Message(
            index=index,
            parent=parent - 1 if parent else None,
            role=role,
            source=source,
            tokens=columns.tokens,
            mask=columns.mask,
            logprobs=columns.logprobs,
            versions=columns.versions,
            images=tuple(images.get(index, ())),
            agent=agent,
        ),
        at,
    )


def _body(data: bytes) -> bytes:
    if data[:1] == bytes([PLAIN]):
        return data[1:]
    if data[:1] == bytes([COMPRESSED]):
        return inflate(data[1:])
    raise ValueError(f"format {data[:1].hex() or 'missing'}; this turnwise reads 01 and 02")
