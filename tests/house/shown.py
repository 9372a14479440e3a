"""The fenced blocks of README.md and docs/, and the shell commands in them, in the order of each page."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ASSIGNMENT = re.compile(r"[A-Z_]+=")


@dataclass(frozen=True)
class Shown:
    """A command of a page, with its comment."""

    page: str
    line: str

    @property
    def text(self) -> str:
        """The command without its comment."""
        return re.sub(r"\s+# .*", "", self.line).strip()

    def calls(self) -> Iterator[list[str]]:
        """Yield the words of each program that the command calls, without the variables before it."""
        words: list[str] = []
        for word in [*shlex.split(re.sub(r"\$\(.*?\)", "ID", self.text)), "&&"]:
            if word != "&&":
                words += [] if not words and ASSIGNMENT.match(word) else [word]
            elif words:
                yield words
                words = []


def blocks(page: Path) -> list[tuple[str, str]]:
    """Return the language and the text of each fenced block of a page."""
    return BLOCK.findall(page.read_text())


def name_of(page: Path) -> str:
    """Return the path of a page from the root of the repository."""
    return page.relative_to(ROOT).as_posix()


def commands_of(page: Path) -> list[Shown]:
    """Return the lines of the page's shell blocks."""
    texts = [text for language, text in blocks(page) if language == "sh"]
    return [Shown(name_of(page), line) for text in texts for line in text.splitlines() if line.strip()]


def files_of(page: Path) -> dict[str, str]:
    """Return the files that a page shows by name: Python and TOML blocks whose first line is a comment with it."""
    named = [(re.match(r"# (\w+\.(?:py|toml))\n", text), text) for _, text in blocks(page)]
    return {match[1]: text for match, text in named if match}
