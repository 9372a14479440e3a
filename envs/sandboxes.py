"""Connect the environments of a run to its sandboxes, so that ``trainer`` and ``agents`` need not import ``sandbox``.

If an environment of a run declares itself ``sandboxed``, the run's driver keeps a sandbox node actor on every node of
the Ray cluster. Each rollout worker gets the run's name and leases its sandboxes from those actors. The workers of a
run without such an environment refuse leases. Elsewhere a lease comes from a pool in the process itself.

An environment whose entry point is a function declares itself by the class that the function's annotation returns, or
by an attribute ``sandboxed`` of the function.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any, TypeVar, get_type_hints

from pydantic import ValidationError

from ..errors import TurnwiseError, reason, suggestion
from ..sandbox.backends.protocol import Prerequisite
from ..sandbox.backends.registry import AUTO, PREFERRED, backend_class
from ..sandbox.cluster.client import ClusterProvider
from ..sandbox.cluster.node import NodeSupervisor, SandboxSettings, alive_nodes
from ..sandbox.errors import OUTCOMES, LeaseTimeout, SandboxBroken, SandboxError
from ..sandbox.provider import InProcessProvider, LeaseProvider, open_at_first_lease, set_provider
from .base import TurnEnv
from .registry import spec

__all__ = [
    "OUTCOMES",
    "NodeSupervisor",
    "SandboxSettings",
    "any_sandboxed",
    "declaration",
    "declared",
    "in_another_sandbox_if_lost",
    "lease_from_run",
    "lease_in_process",
    "missing_images",
    "node_memories_mib",
    "refuse_leases",
    "sandbox_memory_mib",
    "sandbox_settings",
]

T = TypeVar("T")


def any_sandboxed(env_ids: Iterable[str]) -> bool:
    """Return whether any of these environments leases sandboxes. Raises UnknownEnvironment: an id is not registered."""
    return any(declared(env_id, "sandboxed", TurnEnv.sandboxed) for env_id in env_ids)


def sandbox_memory_mib(env_id: str) -> int:
    """Return the memory of the largest sandbox that one episode of an environment leases, as its class declares it."""
    return int(declared(env_id, "sandbox_memory_mib", TurnEnv.sandbox_memory_mib))


def missing_images(env_ids: Iterable[str], settings: SandboxSettings, *, here: bool) -> Iterator[str]:
    """Yield why the backend of a run lacks the image of an environment, and what to do about it.

    ``here``: whether the sandboxes start on this machine, so that its Docker engine and images are checked, too.

    Raises:
        UnknownEnvironment: an id is not registered.
    """
    images = {env_id: declared(env_id, "sandbox_image", TurnEnv.sandbox_image) for env_id in env_ids}
    parts: list[Prerequisite] | None = None
    for env_id, image in images.items():
        if not image:
            continue
        need = f"`{env_id}` runs programs of the image `{image}`"
        if settings.backend != AUTO and not backend_class(settings.backend).capabilities.images:
            yield (
                f"{need}, and the sandbox backend `{settings.backend}` has no images: remove `sandboxes.backend`, or "
                f'set it to "{PREFERRED}"'
            )
        elif here and settings.backend in (AUTO, PREFERRED):
            parts = backend_class(PREFERRED).prerequisites() if parts is None else parts
            for part in parts:
                if not part.found and (part.required or part.name == f"image {image}"):
                    remedy = part.detail if part.required else f"run `{part.detail}`"
                    yield f"{need}, and Docker lacks the {part.name}: {remedy}"
                    break


def node_memories_mib(settings: SandboxSettings) -> list[int]:
    """Return the memory that the sandboxes of each live node may use in MiB; Ray must be connected."""
    import ray

    if settings.memory_per_node_mib is not None:
        return [settings.memory_per_node_mib for _ in alive_nodes()]
    resources = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    return [int(resource.get("memory", 0) + resource.get("object_store_memory", 0)) >> 20 for resource in resources]


def lease_from_run(run: str) -> None:
    """Lease the sandboxes of this process from the node actors of a run; Ray must be connected."""
    set_provider(ClusterProvider(run))


def sandbox_settings(*values: Mapping[str, Any]) -> SandboxSettings:
    """Return settings from their keys and values; later mappings override earlier ones.

    A key ``options.NAME`` sets one option of the backend.

    Raises:
        TurnwiseError: a key is unknown or a value is invalid; the text names the key.
    """
    merged = dict[str, Any]()
    for key, value in ((key, value) for each in values for key, value in each.items()):
        table, _, option = key.partition(".")
        if table == "options" and option and isinstance(merged.setdefault("options", {}), dict):
            merged["options"] = {**merged["options"], option: value}
        else:
            merged[key] = value
    try:
        return SandboxSettings.model_validate(merged)
    except ValidationError as error:
        first = error.errors()[0]
        if not first["loc"]:
            # The backend or its options, which their check describes.
            raise TurnwiseError(f"sandbox settings: {first['ctx']['error']}") from None
        key = ".".join(map(str, first["loc"]))
        settings = [*SandboxSettings.model_fields, "options.NAME"]
        unknown = first["type"] == "extra_forbidden"
        why = f"there is no such setting{suggestion(key, settings)}" if unknown else reason(first)
        raise TurnwiseError(f"sandbox setting `{key}`: {why}; the settings are {', '.join(settings)}") from None


def lease_in_process(settings: SandboxSettings) -> None:
    """Lease the sandboxes of this process from a pool in the process, opened at the first lease."""
    backend = settings.backend if "backend" in settings.model_fields_set else None

    def make() -> LeaseProvider:
        return InProcessProvider(
            backend,
            capacity=settings.max_per_node,
            memory_mib=settings.memory_per_node_mib,
            warm=settings.warm,
            allow_untrusted=settings.allow_local_sandbox,
            options=settings.options,
        )

    open_at_first_lease(make)


def refuse_leases() -> None:
    """Refuse every lease of this process, a worker of a run whose environments declare no sandboxes."""

    def make() -> LeaseProvider:
        raise SandboxError(
            "this environment leases sandboxes, but its entry point does not declare it, so the run has none: set "
            "`sandboxed = True` on the class, or on the factory function, that the entry point names"
        )

    open_at_first_lease(make)


def in_another_sandbox_if_lost(work: Callable[[], T]) -> T:
    """Return the result of ``work``, which leases sandboxes; it is called once more if it raises an error of theirs.

    Raises:
        SandboxError: both calls failed. It is one of ``OUTCOMES`` only if commands of the agent caused both failures,
            or broke the first sandbox and the second did not come in time.
    """
    try:
        return work()
    except SandboxError as first:
        try:
            return work()
        except LeaseTimeout:
            if isinstance(first, SandboxBroken):
                raise first from None
            raise
        except OUTCOMES as second:
            if isinstance(first, OUTCOMES):
                raise
            # The failure from outside counts: an outcome of the agent would earn 0.
            raise first from second


def declared(env_id: str, name: str, default: Any) -> Any:
    """Return an attribute of the outermost of the environment's registered wrappers and its class that declares it."""
    wrappers = [_loaded(wrapper.entry_point) for wrapper in reversed(spec(env_id).additional_wrappers)]
    own = (vars(each)[name] for wrapper in wrappers for each in getattr(wrapper, "__mro__", ()) if name in vars(each))
    return next(own, getattr(declaration(env_id), name, default))


def declaration(env_id: str) -> Any:
    """Return what declares an environment: its class, or its factory function."""
    entry = _loaded(spec(env_id).entry_point)
    if isinstance(entry, type) or hasattr(entry, "sandboxed"):
        return entry
    try:
        return get_type_hints(entry).get("return", entry)
    except (NameError, TypeError, AttributeError):
        return entry


def _loaded(entry: Any) -> Any:
    if not isinstance(entry, str):
        return entry
    module, _, name = entry.partition(":")
    return getattr(import_module(module), name, None)
