"""The policy engine: vLLM in a Ray actor that serves sampled turns to any number of clients.

A client submits requests in batches (``submit``) and collects completions by a long poll (``poll``): a fast request
never waits for a slow one, and a thousand turns per second need only a few hundred Ray calls.

* An engine without a policy version does not generate: requests wait, bounded by their client's timeout, until
  ``update_weights`` or ``use_loaded_weights`` sets the version. A restarted engine has no version.
* vLLM runs in a thread of the actor's process (``core``). An engine that fails ends the process, and Ray restarts it.
* The log-probabilities include the temperature; those of greedy turns are at temperature 1.
"""

import asyncio
import contextlib
import itertools
import logging
import os
import shlex
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from ...base.logs import LogFolder
from ...errors import TurnwiseError
from ..model_folder import adapter_settings, base_model, is_adapter, reads_images
from ..placement import OFF_SANDBOX_NODES, own_node
from .config import DEFAULT_MAX_MODEL_LEN, MAX_IMAGES, EngineConfig, engine_arguments
from .core import Core, OnDone
from .images import ImageFeatures, RefusedImage, UnsentImage, keep_features
from .request import UNSENT, Completion, Request, failed_completion

LOG = logging.getLogger(__name__)

ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CONFIGURE_LOGGING": "0",
    "TOKENIZERS_PARALLELISM": "false",
    "PYTHONWARNINGS": "ignore",
}

CPU_ENVIRONMENT = {**ENVIRONMENT, "TORCH_COMPILE_DISABLE": "1"}
"""On a CPU compilation takes longer than it saves. On a GPU, vLLM compiles and captures CUDA graphs."""

Numbered = tuple[int, Completion]
"""A completion, with the number that the client gave its request."""


def start_engine(
    config: EngineConfig,
    model_path: str | Path,
    max_model_len: int = DEFAULT_MAX_MODEL_LEN,
    *,
    lora_rank: int = 0,
    logs: LogFolder | None = None,
) -> Any:
    """Start an engine actor that loads ``model_path``; return its handle immediately, while it loads (about 8 s).

    ``max_model_len`` bounds prompt and completion together, in tokens. Ray must be initialized. The first call that
    returns shows that the engine is up. ``model_path`` is the folder of a model or of a LoRA adapter. With
    ``lora_rank``, the learner will publish an adapter of that rank, before which a model has no version.
    """
    import ray

    actor: Any = ray.remote(Engine)
    return actor.options(
        num_cpus=0,
        num_gpus=config.tensor_parallel_size,
        max_concurrency=1000,
        max_restarts=-1,
        max_task_retries=0,
        runtime_env={"env_vars": environment_of(config), **_executable()},
        **OFF_SANDBOX_NODES,
    ).remote(config, Path(model_path), max_model_len, logs, lora_rank)


def _executable() -> dict[str, str]:
    """Return the interpreter for Ray, which quotes none: its path may have a space."""
    quoted = shlex.quote(sys.executable)
    return {} if quoted == sys.executable else {"py_executable": quoted}


def environment_of(config: EngineConfig) -> dict[str, str]:
    """Return the environment variables of an engine's process."""
    variables = ENVIRONMENT if config.tensor_parallel_size else CPU_ENVIRONMENT
    return {**variables, "OMP_NUM_THREADS": str(config.num_threads)}


class Engine:
    """The actor. All its methods run in one event loop."""

    def __init__(
        self,
        config: EngineConfig,
        folder: Path,
        max_model_len: int,
        logs: LogFolder | None = None,
        lora_rank: int = 0,
    ) -> None:
        if logs is not None:
            logs.attach("engine")
        self._max_model_len = max_model_len
        adapter = folder if is_adapter(folder) else None
        if adapter is not None:
            lora_rank = int(adapter_settings(adapter)["r"])
        self._needs_adapter = lora_rank > 0 and adapter is None
        images = reads_images(folder)
        if images:
            keep_features()
        arguments = engine_arguments(config, str(base_model(folder)), max_model_len, lora_rank, images=images)
        self._core = Core(arguments, _die, adapter)
        self._features = ImageFeatures(self._core.config) if images else None
        self._incarnation = uuid.uuid4().hex[:8]
        self._node = own_node()
        self._version: int | None = None
        self._names = itertools.count()
        self._updating = asyncio.Lock()
        self._processing = asyncio.Lock()
        self._tasks = set[asyncio.Task[None]]()
        self._clients: dict[str, _ClientQueue] = {}
        self._waiting: list[tuple[_ClientQueue, int, Request]] = []
        self._shown_images = self._received_images = 0

    async def submit(self, client: str, requests: Sequence[tuple[int, Request]], aborted: Sequence[int] = ()) -> None:
        """Start ``requests``, each with a number, and end the ``aborted`` ones; ``poll`` returns the completions."""
        queue = self._queue_of(client)
        if aborted:
            gone = set(aborted)
            self._waiting = [entry for entry in self._waiting if entry[0] is not queue or entry[1] not in gone]
            self._core.abort([queue.names.pop(i) for i in gone if i in queue.names])
        for number, request in requests:
            self._shown_images += len(request.images)
            self._received_images += len(request.contents)
            if self._version is None:
                self._waiting.append((queue, number, request))
            else:
                self._generate(queue, number, request)

    async def poll(self, client: str, timeout_s: float) -> tuple[str, int | None, list[Numbered]]:
        """Return all completions for ``client`` since its last poll, after ``timeout_s`` at the latest.

        The engine's incarnation and the version that it serves are returned too. A new incarnation does not have the
        requests that were submitted to an earlier one.
        """
        queue = self._queue_of(client)
        if not queue.completions:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await queue.filled.wait()
        completions, queue.completions = queue.completions, []
        queue.filled.clear()
        return self._incarnation, self._version, completions

    async def update_weights(self, offer: dict[str, Any], version: int) -> None:
        """Load weights in flight and serve them as ``version``. If that fails, the engine's process ends, and Ray
        restarts it.

        ``offer`` is the result of ``WeightSender.offer`` of a weight transport.
        """
        async with self._updating:
            try:
                await self._core.update(offer, version)
            except Exception as error:
                print(f"weights of version {version} could not be loaded: {error!r}", file=sys.stderr, flush=True)
                LOG.exception("weights could not be loaded; the process ends", extra={"version": version})
                _die()
            self._serve(version)

    async def use_loaded_weights(self, version: int) -> None:
        """Serve the weights that were loaded from the model folder, as ``version``.

        Raises:
            TurnwiseError: the engine was started for a LoRA adapter, and its folder holds none.
        """
        if self._needs_adapter:
            raise TurnwiseError("the engine was started with `lora_rank` and without an adapter: publish one first")
        async with self._updating:
            await self._core.set_version(version)
            self._serve(version)

    async def info(self) -> dict[str, Any]:
        """Return the engine's state: version, incarnation, process id, node, requests, tokens, share of cached prompt
        tokens, images of prompts, and those that were sent with them."""
        core = self._core
        return {
            "incarnation": self._incarnation,
            "version": self._version,
            "pid": os.getpid(),
            "node": self._node,
            "running": sum(len(queue.names) for queue in self._clients.values()),
            "waiting": len(self._waiting),
            "prompt_tokens": core.prompt_tokens,
            "cached_tokens": core.cached_tokens,
            "sampled_tokens": core.sampled_tokens,
            "steps": core.steps,
            "busy_s": core.busy_s,
            "shown_images": self._shown_images,
            "received_images": self._received_images,
            "cached_share": core.cached_tokens / core.prompt_tokens if core.prompt_tokens else 0.0,
        }

    async def stop(self) -> None:
        """Stop vLLM; ``ray.kill`` ends the actor afterwards."""
        self._core.shutdown()

    def _serve(self, version: int) -> None:
        self._version = version
        waiting, self._waiting = self._waiting, []
        for queue, number, request in waiting:
            self._generate(queue, number, request)

    def _generate(self, queue: "_ClientQueue", number: int, request: Request) -> None:
        def done(completion: Completion) -> None:
            if queue.names.pop(number, None) is not None:
                queue.put((number, completion))

        name = queue.names[number] = str(next(self._names))
        size, limit = len(request.tokens), self._max_model_len
        if not 0 < size < limit:
            done(failed_completion(f"a prompt of {size} tokens is refused: it must have 1 to {limit - 1} tokens"))
            return
        if not request.images:
            self._core.add(name, request, done)
            return
        task = asyncio.create_task(self._generate_with_images(queue, number, request, name, done))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _generate_with_images(
        self, queue: "_ClientQueue", number: int, request: Request, name: str, done: OnDone
    ) -> None:
        """Compute the features of the images in a thread, for this loop responds to polls meanwhile."""
        try:
            if self._features is None:
                raise RefusedImage("the prompt has images, and the model of this engine reads text only")
            if len(request.images) > MAX_IMAGES:
                raise RefusedImage(f"the prompt has {len(request.images)} images, and the engine takes {MAX_IMAGES}")
            async with self._processing:
                if number not in queue.names:  # aborted
                    return
                features = await asyncio.to_thread(self._features.of, request.tokens, request.images, request.contents)
        except UnsentImage:
            done(failed_completion(UNSENT))
        except RefusedImage as error:
            done(failed_completion(str(error)))
        else:
            if number in queue.names:
                self._core.add(name, request, done, features)

    def _queue_of(self, client: str) -> "_ClientQueue":
        return self._clients.setdefault(client, _ClientQueue())


class _ClientQueue:
    """The running requests of one client, and its completions that await the next poll."""

    __slots__ = ("completions", "filled", "names")

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self.completions: list[Numbered] = []
        self.filled = asyncio.Event()

    def put(self, numbered: Numbered) -> None:
        self.completions.append(numbered)
        self.filled.set()


def _die() -> NoReturn:
    """End this process immediately, so that Ray restarts the actor."""
    os._exit(1)
