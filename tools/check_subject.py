"""Check the subject of a commit message, as a commit-msg hook: ``python tools/check_subject.py MESSAGE_FILE``."""

import re
import sys
from pathlib import Path

LENGTH = 72
FORM = re.compile(r"[a-z][a-z0-9_, ./-]*: [a-z].*[^.]")


def fault(message: str) -> str:
    """Return why the subject of a message is refused; empty if it is right. Those that git writes are right."""
    subject = next((line for line in message.splitlines() if line.strip() and not line.startswith("#")), "")
    if subject.startswith(("Merge ", 'Revert "', "fixup! ", "squash! ")):
        return ""
    if len(subject) > LENGTH:
        return f"the subject has {len(subject)} characters, at most {LENGTH} are allowed: {subject}"
    if not FORM.fullmatch(subject):
        return f"the subject is not of the form `area: imperative verb object`: {subject}"
    return ""


if __name__ == "__main__":
    if found := fault(Path(sys.argv[1]).read_text()):
        sys.exit(found)
