"""Change a setting in files of three kinds, and leave every value that only resembles it unchanged."""

import json

from ..task import Case, CodeTask
from .program import text
from .words import Words

SHOW = """
# Prints the ports of every service, as each of the files has them.
import configparser
import json
import pathlib

found = []
for path in sorted(pathlib.Path("config").iterdir()):
    content = path.read_text()
    if path.suffix == ".ini":
        parser = configparser.ConfigParser()
        parser.read_string(content)
        found += [(path.name, name, section["port"]) for name, section in parser.items() if "port" in section]
    elif path.suffix == ".json":
        services = json.loads(content)["services"]
        found += [(path.name, name, service["port"]) for name, service in services.items()]
    else:
        pairs = (line.split("=") for line in content.split())
        found += [(path.name, key[: -len("_PORT")].lower(), value) for key, value in pairs if key.endswith("_PORT")]
for where, service, port in sorted(found):
    print(where, service, port)
"""
SHOW_PATH = "show.py"


def setting(words: Words) -> CodeTask:
    """Return a task with the names and random choices of ``words``."""
    old = words.number(4000, 5999)
    new, other = old + words.number(11, 99), old + words.number(1001, 1999)
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

    def shown(ini: int, as_json: int, env: int, of_twin: int = old) -> bytes:
        lines = [
            (path.rpartition("/")[2], name, value)
            for path, port in zip(paths, (ini, as_json, env), strict=True)
            for name, value in ((wanted, port), (twin, of_twin), (third, other))
        ]
        return "".join(f"{where} {name} {value}\n" for where, name, value in sorted(lines)).encode()

    show = text(SHOW).encode()
    return CodeTask(
        name="setting",
        instruction=f"The service {wanted} moves to port {new}. Change its port wherever the files in config/ set it, "
        f"and leave every other service as it is. `python3 {SHOW_PATH}` prints all ports.",
        workspace={**files(old, old, old), SHOW_PATH: show},
        cases=(Case(("python3", SHOW_PATH), shown(new, new, new), files={SHOW_PATH: show}),),
        protected=(SHOW_PATH,),
        solution=files(new, new, new),
        mutations={
            "in one file": files(new, old, old),
            "not in the last file": files(new, new, old),
            "the number everywhere": files(new, new, new, of_twin=new),
            "another number": files(new + 1, new + 1, new + 1),
        },
    )
