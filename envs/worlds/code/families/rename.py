"""Rename a function in all modules that use it; the program must still work, and nothing else may change."""

from .....sandbox import Tree
from ..checks.calls import CallCase
from ..checks.file_checks import ProgramsEqual
from ..task import Case, CodeTask
from .base import Words, texts

TEXTS = texts("rename")


def draw(words: Words) -> CodeTask:
    """Return a task with the names and random choices of ``words``."""
    first, second, third, bonus = words.first, words.second, words.third, words.integer(1, 9)
    verb, other = words.sample(("total", "amount", "balance", "count", "score"), 2)
    old, new = f"{verb}_{first}", f"{other}_{third}"

    def files(in_library: str, in_report: str, in_main: str) -> dict[str, bytes]:
        sources = {f"{first}.py": "library", f"report_{second}.py": "report", "main.py": "main"}
        used = dict(zip(sources, (in_library, in_report, in_main), strict=True))
        return {
            path: words.text(TEXTS[source], bonus=bonus, function=used[path]).encode()
            for path, source in sources.items()
        }

    def total(values: list[int]) -> int:
        return sum(value for value in values if value % 2 == 0) + bonus

    def case(values: list[int]) -> Case:
        printed = f"{second} {total(values)} of {len(values)}\n{third} {total(values[: len(values) // 2])}\n"
        return Case(("python3", "main.py"), printed.encode(), " ".join(map(str, values)).encode())

    def call(values: list[int]) -> CallCase:
        return CallCase(f"{first}.{new}({values})", returns=str(total(values)))

    renamed = files(new, new, new)
    alias = {**renamed, f"{first}.py": renamed[f"{first}.py"] + f"\n\n{old} = {new}\n".encode()}
    lengths = (words.integer(6, 9), words.integer(2, 3), 1, 0)
    return CodeTask(
        name="rename",
        instruction=words.text(TEXTS["instruction"], old=old, new=new),
        workspace=Tree.of(files(old, old, old)),
        cases=(
            *(case([words.integer(-9, 99) for _ in range(length)]) for length in lengths),
            call([words.integer(1, 99) for _ in range(words.integer(3, 5))] + [words.integer(50, 99) * 2]),
            call([words.integer(1, 40) * 2 + 1]),
        ),
        file_checks=(ProgramsEqual(tuple(sorted(renamed.items())), without=old),),
        solution=renamed,
        mutations={
            "the old name kept": alias,
            "only where it is made": files(new, old, old),
            "only where it is used": files(old, new, new),
            "not in main": files(new, new, old),
        },
    )
