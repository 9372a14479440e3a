"""Change a setting in files of three kinds, and leave every value that only resembles it unchanged."""

import json

from ....sandbox import Tree
from ..checks.file_checks import ConfigEquals
from ..task import CodeTask
from .base import Words, texts

TEXTS = texts("setting")
SHOW_PATH = "show.py"


def draw(words: Words) -> CodeTask:
    """Return a task with the names and random choices of ``words``."""
    old = words.integer(4000, 5999)
    new, other = old + words.integer(11, 99), old + words.integer(1001, 1999)
    wanted, twin, third = words.first, words.second, words.third
    paths = (f"config/{third}.ini", f"config/{third}.json", f"config/{third}.env")

    def files(ini: int, as_json: int, env: int, of_twin: int = old) -> dict[str, bytes]:
        order = (wanted, twin, third)
        ports = [{wanted: port, twin: of_twin, third: other} for port in (ini, as_json, env)]
        return {
            paths[0]: "".join(f"[{name}]\nhost = {name}.local\nport = {ports[0][name]}\n\n" for name in order).encode(),
            paths[1]: (
                json.dumps({"services": {name: {"retries": 3, "port": ports[1][name]} for name in order}}, indent=2)
                + "\n"
            ).encode(),
            paths[2]: "".join(
                f"{name.upper()}_PORT={ports[2][name]}\n{name.upper()}_LOG=info\n" for name in order
            ).encode(),
        }

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
            "the number everywhere": files(new, new, new, of_twin=new),
            "another number": files(new + 1, new + 1, new + 1),
            **{f"only the ports of the {path[-4:].lstrip('.')} file kept": bare(path) for path in paths},
        },
    )
