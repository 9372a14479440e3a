"""vLLM's engine core in a thread of this process, without Ray, clients or a second process.

Only this thread touches the core. Between two steps it runs the commands of a queue. It hands all completions of a step
to the event loop in one call, each with token ids, behavior log-probabilities and the policy version of every token.
``AsyncLLM`` would add a process and a serialization of each turn: twice the start-up, 1.4 times the memory, and half as
much processor time per turn again, with a model of 0.4 million parameters.

``update`` is exact: requests that run through it continue under the new weights, their key-value cache is recomputed,
and their earlier tokens keep the log-probabilities and versions of the policy that sampled them.
"""

import asyncio
import functools
import gc
import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .cpu_patches import norm_arguments
from .request import Completion, Request, Sampling

LOG = logging.getLogger(__name__)

OnDone = Callable[[Completion], None]


@dataclass(slots=True)
class _Running:
    """A request, with what it has sampled so far."""

    done: OnDone
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    top: list[list[tuple[int, float]]] = field(default_factory=list)

    def extend(self, tokens: list[int], logprobs: Any, version: int) -> None:
        """Add the tokens of one step. In ``logprobs``, the first column is that of the sampled token."""
        self.tokens += tokens
        self.logprobs += logprobs.logprobs[:, 0].tolist()
        self.versions += [version] * len(tokens)
        if logprobs.logprobs.shape[1] > 1:
            rows = zip(logprobs.logprob_token_ids[:, 1:].tolist(), logprobs.logprobs[:, 1:].tolist(), strict=True)
            self.top += [list(zip(*row, strict=True)) for row in rows]

    def completion(self, reason: str) -> Completion:
        """Return the turn, which ended for this reason."""
        return Completion(self.tokens, self.logprobs, self.versions, reason, self.top)


class Core:
    """One vLLM engine. If a step raises, the engine's state is undefined, and ``on_death`` is called in its thread.

    Raises:
        Exception: vLLM could not load the model; its exception is raised unchanged.
    """

    def __init__(self, arguments: dict[str, Any], on_death: Callable[[], None], adapter: Path | None = None) -> None:
        """Load the model.

        Args:
            arguments: of vLLM's ``EngineArgs``. With ``enable_lora``, every request uses the LoRA adapter.
            adapter: folder of the adapter to load, or to merge into the weights without ``enable_lora``; without it,
                the first ``update`` loads one.
        """
        self._arguments = arguments
        self._adapter = adapter
        self._lora: Any = None
        self._on_death = on_death
        self._commands: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._core: Any = None
        self._running: dict[str, _Running] = {}
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.sampled_tokens = 0
        self.steps = 0
        """Engine steps, each of which samples at most one token per request."""
        self.busy_s = 0.0
        """Seconds spent computing."""
        up: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(up,), name="vllm", daemon=True)
        self._thread.start()
        up.result()

    def add(self, name: str, request: Request, done: OnDone, features: Sequence[Any] = ()) -> None:
        """Start generating; ``done`` is called once, in the event loop. Call this from that loop.

        Args:
            features: vLLM's ``MultiModalFeatureSpec`` of each image in the prompt.
        """
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        self._commands.put(lambda: self._add(name, request, done, features))

    def abort(self, names: list[str]) -> None:
        """End requests early; their ``done`` is never called."""
        self._commands.put(lambda: self._abort(names))

    async def update(self, offer: dict[str, Any], version: int) -> None:
        """Load new weights in flight; tokens sampled after this returns carry ``version``."""
        await self._execute(lambda: self._update(offer, version))

    async def set_version(self, version: int) -> None:
        """Set the version of the loaded weights."""
        await self._execute(lambda: self._core.set_weight_version(str(version)))

    @property
    def config(self) -> Any:
        """vLLM's configuration."""
        return self._core.vllm_config

    def shutdown(self) -> None:
        """End the thread, within ten seconds."""
        self._commands.put(None)
        self._thread.join(10)

    async def _execute(self, command: Callable[[], None]) -> None:
        future: Future[None] = Future()

        def run() -> None:
            try:
                command()
            except Exception as error:  # noqa: BLE001 - raised where the command is awaited
                future.set_exception(error)
            else:
                future.set_result(None)

        self._commands.put(run)
        await asyncio.wrap_future(future)

    def _run(self, up: "Future[None]") -> None:
        gc.disable()
        try:
            self._core = self._load()
        except BaseException as error:  # noqa: BLE001 - raised where the start is awaited
            up.set_exception(error)
            return
        finally:
            gc.enable()
        up.set_result(None)
        try:
            while self._run_commands():
                self._step()
            self._core.shutdown()
        # Model code, CUDA and plugins of vLLM can raise anything; without `_on_death` every open request would wait.
        except Exception:
            LOG.exception("a step of vLLM raised; the process ends")
            self._on_death()

    def _load(self) -> Any:
        """Import vLLM and load the model. Garbage collection is disabled during the load: it would take a quarter of
        the time."""
        from vllm.engine.arg_utils import EngineArgs
        from vllm.usage.usage_lib import UsageContext
        from vllm.v1.engine.core import EngineCore
        from vllm.v1.executor import Executor

        config = EngineArgs(**_all_arguments(self._arguments)).create_engine_config(UsageContext.ENGINE_CONTEXT)
        gc.freeze()
        core = EngineCore(config, Executor.get_class(config), log_stats=False)
        core.collective_rpc("init_weight_transfer_engine", kwargs={"init_info": {}})
        if config.lora_config is not None:
            from ..weights.served_adapter import policy_adapter

            self._lora = policy_adapter(str(self._adapter or "published by the learner"))
            if self._adapter is not None:
                core.add_lora(self._lora)
        elif self._adapter is not None:
            core.collective_rpc("merge_adapter", args=(str(self._adapter),))
        return core

    def _run_commands(self) -> bool:
        """Run all queued commands; wait for one if there is nothing to compute. Return False on shutdown."""
        wait = not self._core.scheduler.has_requests()
        while True:
            try:
                command = self._commands.get(block=wait)
            except queue.Empty:
                return True
            if command is None:
                return False
            command()
            wait = False

    def _step(self) -> None:
        started = time.perf_counter()
        outputs, executed = self._core.step()
        self.busy_s += time.perf_counter() - started
        self.steps += executed
        self._core.post_step(executed)
        finished: list[tuple[OnDone, Completion]] = []
        for batch in (outputs or {}).values():
            for output in batch.outputs:
                self._collect(output, batch.weight_version, finished)
        if finished and self._loop is not None:
            self._loop.call_soon_threadsafe(_deliver, finished)

    def _collect(self, output: Any, version: str, finished: list[tuple[OnDone, Completion]]) -> None:
        running = self._running.get(output.request_id)
        if running is None:
            return
        if output.prefill_stats is not None and not running.tokens:
            self.prompt_tokens += output.prefill_stats.num_prompt_tokens
            self.cached_tokens += output.prefill_stats.num_cached_tokens
        if output.new_token_ids:
            running.extend(output.new_token_ids, output.new_logprobs, int(version))
        if output.finish_reason is not None:
            del self._running[output.request_id]
            self.sampled_tokens += len(running.tokens)
            finished.append((running.done, running.completion(str(output.finish_reason))))

    def _add(self, name: str, request: Request, done: OnDone, features: Sequence[Any]) -> None:
        from vllm.v1.engine import EngineCoreRequest

        core_request = EngineCoreRequest(
            request_id=name,
            prompt_token_ids=list(request.tokens),
            mm_features=list(features) or None,
            sampling_params=_sampling_params(request.max_tokens, request.sampling),
            pooling_params=None,
            arrival_time=0.0,
            lora_request=self._lora,
            cache_salt=None,
            data_parallel_rank=None,
        )
        self._core.add_request(*self._core.preprocess_add_request(core_request))
        self._running[name] = _Running(done)

    def _abort(self, names: list[str]) -> None:
        known = [name for name in names if self._running.pop(name, None) is not None]
        self._core.abort_requests(known)

    def _update(self, offer: dict[str, Any], version: int) -> None:
        core = self._core
        core.pause_scheduler(mode="keep", clear_cache=True)
        if offer["adapter"] is None:
            core.collective_rpc("start_weight_update")
            core.collective_rpc("update_weights", kwargs={"update_info": {"offer": offer}})
            core.collective_rpc("finish_weight_update")
        else:
            core.collective_rpc("update_adapter", args=(offer,))
        core.set_weight_version(str(version))
        core.resume_scheduler()


@functools.cache
def _sampling_params(max_tokens: int, sampling: Sampling) -> Any:
    from vllm import SamplingParams

    return SamplingParams(
        max_tokens=max_tokens,
        temperature=sampling.temperature,
        logprobs=sampling.logprobs,
        detokenize=False,
        stop_token_ids=list(sampling.stop),
    )


def _deliver(finished: list[tuple[OnDone, Completion]]) -> None:
    for done, completion in finished:
        done(completion)


def _all_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of an engine: those that every engine has, and ``arguments``. Imports vLLM."""
    from vllm.config import WeightTransferConfig
    from vllm.platforms import current_platform

    own = {
        "skip_tokenizer_init": True,
        "generation_config": "vllm",
        "logprobs_mode": "processed_logprobs",
        "enable_prefix_caching": True,
        "disable_log_stats": True,
        "async_scheduling": False,
        "use_tqdm_on_load": False,
        "worker_extension_cls": "turnwise.agents.engine.weight_worker.WorkerExtension",
        "weight_transfer_config": WeightTransferConfig(backend="turnwise"),
    }
    if current_platform.is_cpu() and "kernel_config" not in arguments:
        own |= norm_arguments()
    return own | dict(arguments)
