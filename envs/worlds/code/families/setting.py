"""Change a setting in files of three kinds, and leave every value that only resembles it unchanged."""

from .....sandbox import Tree
from ..checks.file_checks import ConfigEquals
from ..task import CodeTask
from .base import Words, texts

TEXTS = texts("setting")
SHOW_PATH = "show.py"


def draw(words: Words) -> CodeTask:
    """Return a task with the names and random choices of ``words``."""
    old = words.integer(4000, 5999)
    new, other = old + words.integer(11, 99), old + words.integer(1001, 1999)
    paths = {kind: f"config/{words.third}.{kind}" for kind in TEXTS["config"]}

    def files(*ports: int, twin: int = old) -> dict[str, bytes]:
        """Return the files with a port of the service in each, and a port of the second service in all of them."""
        contents = zip(paths.values(), TEXTS["config"].values(), ports, strict=True)
        return {path: words.text(text, port=port, twin=twin, other=other).encode() for path, text, port in contents}

    def named(left: dict[str, bytes]) -> dict[str, bytes]:
        return {path.removeprefix("config/"): content for path, content in left.items()}

    def bare(path: str) -> dict[str, bytes]:
        """Return the solution with every line of a file removed or changed that is not about a port."""
        right = files(new, new, new)
        lost = {b"host = ": b"host = x", b'"retries": 3': b'"retries": 0', b"_LOG=info": b"_LOG=debug"}
        for old_text, new_text in lost.items():
            right[path] = right[path].replace(old_text, new_text)
        return right

    return CodeTask(
        name="setting",
        instruction=words.text(TEXTS["instruction"], new=new),
        workspace=Tree.of({**files(old, old, old), SHOW_PATH: TEXTS["show"].encode()}),
        file_checks=(ConfigEquals("config", tuple(sorted(named(files(new, new, new)).items()))),),
        protected=(SHOW_PATH,),
        solution=files(new, new, new),
        mutations={
            "in one file": files(new, old, old),
            "not in the last file": files(new, new, old),
            "the number everywhere": files(new, new, new, twin=new),
            "another number": files(new + 1, new + 1, new + 1),
            **{f"only the ports of the {kind} file kept": bare(path) for kind, path in paths.items()},
        },
    )
