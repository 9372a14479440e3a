"""The policy engine: vLLM in a Ray actor, serving sampled turns to any number of clients.

A client hands over requests in batches (``submit``) and takes whatever is finished by a long poll (``poll``): a fast
request never waits for a slow one, and a thousand turns a second need only a few hundred Ray calls.

* An engine without a policy version does not generate: requests wait (their client holds the deadline) until
  ``update_weights`` or ``use_loaded_weights`` says what it serves. After a restart it has none again.
* vLLM runs in the actor's own process (``agents.core``). A step that raises ends the process, and Ray starts it anew.
* Sampling is plain: a temperature, and nothing else. Log-probabilities are those of the distribution sampled from.
"""

import asyncio
import contextlib
import itertools
import logging
import os
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn

from pydantic import BaseModel, ConfigDict, Field

from ...logs import LogFolder
from ..placement import OFF_SANDBOX_NODES
from ..tokens.encoding import stop_tokens
from . import cpu_patches as vllm_cpu

LOG = logging.getLogger(__name__)

ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "TORCH_COMPILE_DISABLE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CONFIGURE_LOGGING": "0",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
    "PYTHONWARNINGS": "ignore",
}

DEFAULT_MAX_MODEL_LEN = 1024
"""Prompt and completion together, in tokens."""

Request = tuple[int, list[int], int]
"""A client's number for it, the prompt's ids, and the most tokens to sample."""
Answer = tuple[int, list[int], list[float], list[int], str]
"""The client's number, sampled ids, log-probabilities, versions, and why it ended; without ids: what went wrong."""


class EngineConfig(BaseModel):
    """How an engine is run. What would bend the sampling distribution (top-p, top-k, penalties) has no field."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_num_seqs: int = Field(default=256, gt=0)
    """Requests generated at the same time; more wait."""
    max_num_batched_tokens: int = Field(default=1024, gt=0)
    """Tokens per engine step; on a CPU, more than about 1,024 exceed its cache, which costs a quarter of the speed."""
    kv_cache_memory_bytes: int = Field(default=256 << 20, gt=0)
    """Memory of the key-value cache; on a CPU all of it is resident."""
    block_size: int = Field(default=16, gt=0, multiple_of=16)
    """Grain of the prefix cache, in tokens."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Data type of weights and computation."""
    num_threads: int = Field(default=1, gt=0)
    """CPU threads per engine; the sum over all busy processes should not exceed the number of cores."""
    tensor_parallel_size: int = Field(default=0, ge=0)
    """GPUs per engine; 0 runs the engine on the CPU."""


def start_engine(
    config: EngineConfig,
    model_path: str | Path,
    max_model_len: int = DEFAULT_MAX_MODEL_LEN,
    *,
    name: str | None = None,
    logs: LogFolder | None = None,
) -> Any:
    """Start an engine actor that loads ``model_path``; returns its handle at once, while it loads (about 8 s).

    ``max_model_len`` is the prompt and the completion together, in tokens. Ray must be initialised. The first call that
    answers shows that it is up.
    """
    import ray

    environment = {**ENVIRONMENT, "OMP_NUM_THREADS": str(config.num_threads)}
    actor: Any = ray.remote(Engine)
    return actor.options(
        name=name,
        num_cpus=0,
        num_gpus=config.tensor_parallel_size,
        max_concurrency=1000,
        max_restarts=-1,
        max_task_retries=0,
        runtime_env={"env_vars": environment},
        **OFF_SANDBOX_NODES,
    ).remote(config.model_dump(), str(model_path), max_model_len, logs)


class Engine:
    """The actor. All its methods run in one event loop."""

    def __init__(
        self, config: dict[str, Any], model_path: str, max_model_len: int, logs: LogFolder | None = None
    ) -> None:
        if logs is not None:
            logs.attach("engine")
        from .core import Core

        self._max_model_len = max_model_len
        arguments = engine_arguments(EngineConfig.model_validate(config), model_path, max_model_len)
        self._core = Core(arguments, stop_tokens(Path(model_path)), _die)
        self._incarnation = uuid.uuid4().hex[:8]
        self._version: int | None = None
        self._names = itertools.count()
        self._updating = asyncio.Lock()
        self._boxes: dict[str, _Box] = {}
        self._waiting: list[tuple[_Box, Request, float]] = []

    async def submit(
        self, client: str, temperature: float, requests: Sequence[Request], aborted: Sequence[int] = ()
    ) -> None:
        """Start ``requests`` and end the ``aborted`` ones; the answers come by ``poll``."""
        box = self._box(client)
        if aborted:
            gone = set(aborted)
            self._waiting = [entry for entry in self._waiting if entry[0] is not box or entry[1][0] not in gone]
            self._core.abort([box.names.pop(i) for i in gone if i in box.names])
        for request in requests:
            if self._version is None:
                self._waiting.append((box, request, temperature))
            else:
                self._generate(box, request, temperature)

    async def poll(self, client: str, timeout_s: float) -> tuple[str, int | None, list[Answer]]:
        """All that finished for ``client`` since its last poll, at the latest after ``timeout_s``.

        With it come the engine's incarnation and the version it serves; a new incarnation knows nothing of requests
        submitted to the one before.
        """
        box = self._box(client)
        if not box.answers:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await box.filled.wait()
        answers, box.answers = box.answers, []
        box.filled.clear()
        return self._incarnation, self._version, answers

    async def update_weights(self, info: dict[str, Any], version: int) -> None:
        """Load weights in flight and serve them as ``version``. If that fails the engine ends, and is started anew.

        ``info`` is what the trainer's side of the weight backend says: ``WeightWriter.write`` for ``shm``.
        """
        async with self._updating:
            try:
                await self._core.update(info, version)
            except Exception as error:
                print(f"weights of version {version} could not be loaded: {error!r}", file=sys.stderr, flush=True)
                LOG.exception("weights could not be loaded; the process ends", extra={"version": version})
                _die()
            self._serve(version)

    async def use_loaded_weights(self, version: int) -> None:
        """Serve the weights that were loaded from the model folder, as ``version``."""
        async with self._updating:
            await self._core.label(version)
            self._serve(version)

    async def info(self) -> dict[str, Any]:
        """How the engine stands: version, incarnation, process id, requests, tokens, share of the prefix cache."""
        core = self._core
        return {
            "incarnation": self._incarnation,
            "version": self._version,
            "pid": os.getpid(),
            "running": sum(len(box.names) for box in self._boxes.values()),
            "waiting": len(self._waiting),
            "prompt_tokens": core.prompt_tokens,
            "cached_tokens": core.cached_tokens,
            "sampled_tokens": core.sampled_tokens,
            "busy_s": core.busy_s,
            "cached_share": core.cached_tokens / core.prompt_tokens if core.prompt_tokens else 0.0,
        }

    async def stop(self) -> None:
        """End vLLM; the actor itself is ended by ``ray.kill`` afterwards."""
        self._core.shutdown()

    def _serve(self, version: int) -> None:
        self._version = version
        waiting, self._waiting = self._waiting, []
        for box, request, temperature in waiting:
            self._generate(box, request, temperature)

    def _generate(self, box: "_Box", request: Request, temperature: float) -> None:
        number, prompt, max_tokens = request

        def done(answer: Any) -> None:
            if box.names.pop(number, None) is not None:
                box.put((number, *answer))

        name = box.names[number] = str(next(self._names))
        if 0 < len(prompt) < self._max_model_len:
            self._core.add(name, prompt, max_tokens, temperature, done)
        else:
            limit = self._max_model_len
            done(([], [], [], f"a prompt of {len(prompt)} tokens is refused: the context holds {limit}"))

    def _box(self, client: str) -> "_Box":
        return self._boxes.setdefault(client, _Box())


class _Box:
    """What one client has running and what is ready for it."""

    __slots__ = ("answers", "filled", "names")

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self.answers: list[Answer] = []
        self.filled = asyncio.Event()

    def put(self, answer: Answer) -> None:
        self.answers.append(answer)
        self.filled.set()


def engine_arguments(
    config: EngineConfig, model_path: str, max_model_len: int = DEFAULT_MAX_MODEL_LEN
) -> dict[str, Any]:
    """Return the arguments of vLLM's engine."""
    arguments: dict[str, Any] = {
        "model": model_path,
        "dtype": config.dtype,
        "max_model_len": max_model_len,
        "max_num_seqs": config.max_num_seqs,
        "max_num_batched_tokens": config.max_num_batched_tokens,
        "kv_cache_memory_bytes": config.kv_cache_memory_bytes,
        "block_size": config.block_size,
    }
    if config.tensor_parallel_size:
        return {**arguments, "tensor_parallel_size": config.tensor_parallel_size}
    return {**arguments, "enforce_eager": True, "block_size": vllm_cpu.block_size(config.block_size)}


def _die() -> NoReturn:
    """End this process at once, so that Ray starts the actor anew."""
    os._exit(1)
