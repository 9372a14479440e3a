"""``turnwise sandbox``: check, list, remove and build the sandboxes that environments run in."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import astuple, replace
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from ..options import Json
from ..terminal.output import console, print_json
from ..terminal.sanitize import one_line, sanitize
from ..terminal.tables import print_table
from .envs import read_options

if TYPE_CHECKING:
    from ...sandbox.backends.protocol import Backend

app = typer.Typer(help="List backends and sandboxes, build images, check the isolation.", no_args_is_help=True)

T = TypeVar("T")
BackendName = Annotated[str, typer.Option("--backend", help="docker, local, or a registered backend.")]
Options = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="KEY=VALUE", help="An option of the backend, such as runtime=runsc; repeatable."),
]


@app.command()
def check(
    backend: BackendName = "docker",
    attacks: Annotated[bool, typer.Option("--attacks", help="Run only the isolation attacks.")] = False,
    conformance: Annotated[bool, typer.Option("--conformance", help="Run only the conformance cases.")] = False,
    options: Options = None,
    as_json: Json = False,
) -> None:
    """Check conformance and isolation of sandboxes on this machine (about 30 s); exit 1 if a case failed."""
    from ...sandbox.selfcheck.attack import AttackResult
    from ...sandbox.selfcheck.harness import CaseResult
    from ...sandbox.selfcheck.run import run_attacks, run_conformance

    def on_result(result: CaseResult | AttackResult) -> None:
        if not as_json:
            console().print(_line(result), soft_wrap=True)

    async def work(instance: "Backend") -> tuple[list[CaseResult], list[AttackResult]]:
        cases = await run_conformance(instance, on_result) if conformance or not attacks else []
        return cases, await run_attacks(instance, on_result) if attacks or not conformance else []

    cases, outcomes = _with_backend(backend, work, options)
    ok = all(case.ok for case in cases) and all(outcome.ok for outcome in outcomes)
    if as_json:
        print_json({"ok": ok, "backend": backend, "conformance": cases, "attacks": outcomes})
    if not ok:
        raise typer.Exit(1)


@app.command("list")
def list_sandboxes(backend: BackendName = "docker", as_json: Json = False) -> None:
    """List the sandboxes of a backend on this machine with their owners, and mark the dead ones."""
    rows = _with_backend(backend, lambda instance: instance.list_sandboxes())
    if as_json:
        print_json(rows)
    else:
        columns = ("sandbox", "status", "image", "run", "owner", "expires", "dead because")
        short = [replace(row, image=row.image.removeprefix("sha256:")[:12]) for row in rows]
        print_table(columns, [astuple(row) for row in short], empty="no sandboxes")


@app.command()
def reap(
    backend: BackendName = "docker",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the sandboxes without removing them.")] = False,
    as_json: Json = False,
) -> None:
    """Remove dead sandboxes: the owner is gone, or the sandbox expired more than a minute ago."""

    async def work(instance: "Backend") -> list[str]:
        if dry_run:
            return [one.id for one in await instance.list_sandboxes() if one.reap_reason]
        return await instance.reap()

    names = _with_backend(backend, work)
    if as_json:
        print_json({"removed": [] if dry_run else names, "dead": names})
    elif names:
        print_table(("would be removed" if dry_run else "removed",), [(name,) for name in names], empty="")
    else:
        console().print("no dead sandboxes")


@app.command()
def backends(as_json: Json = False) -> None:
    """List the backends with their prerequisites on this machine; exit 1 if no backend is available."""
    from ...sandbox.backends.registry import all_prerequisites

    parts = all_prerequisites()
    if as_json:
        print_json(parts)
    else:
        rows = [(part.backend, part.name, "found" if part.found else "missing", part.detail) for part in parts]
        print_table(("backend", "part", "is", "version, or what to do"), rows, empty="")
    lacking = {part.backend for part in parts if part.required and not part.found}
    if not {part.backend for part in parts} - lacking:
        raise typer.Exit(1)


@app.command()
def build(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Such as code, web or desktop; default: all.")
    ] = None,
    base: Annotated[str | None, typer.Option("--base", metavar="REF", help="The image to build on.")] = None,
    again: Annotated[bool, typer.Option("--again", help="Build even if nothing changed.")] = False,
    backend: BackendName = "docker",
    as_json: Json = False,
) -> None:
    """Build the registered images for a backend on this machine. The first build takes minutes."""
    from ...sandbox.backends.registry import backend_class
    from ...sandbox.images.reference import registered

    def report(line: str) -> None:
        console(stderr=as_json).print(sanitize(line), soft_wrap=True)

    kind = backend_class(backend)
    digests = {name: kind.build_image(name, report, base=base, again=again) for name in names or registered()}
    if as_json:
        print_json(digests)
    else:
        print_table(("image", "digest"), list(digests.items()), empty="")


def _line(result: Any) -> str:
    """Return the result of a case as one line."""
    from ...sandbox.selfcheck.attack import AttackResult

    detail = one_line(result.detail, None)
    if isinstance(result, AttackResult):
        state = f"sandbox {result.sandbox}, sibling {result.sibling_ms:.0f} ms"
        return f"{result.verdict:<13}  {result.ms:6.0f} ms  {result.name:<26}  {detail}; {state}"
    return f"{'ok' if result.ok else 'FAILED':<13}  {result.ms:6.0f} ms  {result.name:<26}  {detail}"


def _with_backend(
    name: str, work: "Callable[[Backend], Coroutine[Any, Any, T]]", options: list[str] | None = None
) -> T:
    """Return the result of ``work`` with a backend, which is closed afterwards.

    Raises:
        SandboxError: the backend or an option is unknown, or the backend is not available on this machine.
        InvalidOption: an option is not `KEY=VALUE`.
    """
    from ...sandbox.backends.registry import make_backend

    chosen = read_options(options)

    async def whole() -> T:
        instance = make_backend(name, "console", allow_untrusted=True, options=chosen)
        try:
            return await work(instance)
        finally:
            await instance.close()

    return asyncio.run(whole())
