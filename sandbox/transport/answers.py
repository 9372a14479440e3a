"""Answers of a guest agent, checked before use, as if an attacker had taken over the guest agent."""

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat


class ResultHeader(BaseModel):
    """Header of the result of a command or of a request to a socket; the payload is stdout and stderr."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    exit_code: int
    timed_out: bool
    output_limit_exceeded: bool
    oom: bool
    duration_s: FiniteFloat
    stdout_bytes: Annotated[int, Field(ge=0)]


def refusal(answer: Mapping[str, Any]) -> str | None:
    """Return why the guest agent refused the operation; None if it did not. Raises ValueError."""
    if "error" not in answer:
        return None
    if not isinstance(answer["error"], str):
        raise ValueError("a refusal without a text")
    return answer["error"]


def digest(answer: Mapping[str, Any]) -> str:
    """Return the digest of files. Raises ValueError."""
    if not isinstance(answer.get("digest"), str):
        raise ValueError("no digest")
    return str(answer["digest"])


def contents(answer: Mapping[str, Any], payload: bytes) -> dict[str, bytes]:
    """Return the contents of files by name.

    Raises:
        ValueError: the files are not those of the payload, or a name leads out of the folder that was read.
    """
    files = answer.get("files")
    if not isinstance(files, list):
        raise ValueError("no list of files")
    found, offset = dict[str, bytes](), 0
    for entry in files:
        name, length = _file(entry)
        found[name] = payload[offset : offset + length]
        offset += length
    if offset != len(payload):
        raise ValueError("files of other lengths than the payload")
    return found


def _file(entry: object) -> tuple[str, int]:
    """Return name and length of a file. Raises ValueError."""
    match entry:
        case [str(name), int(length)] if length >= 0:
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts:
                raise ValueError("a file outside the folder that was read")
            return name, length
    raise ValueError("a file without a name and a length")
