"""vLLM behind its documented ``AsyncLLM``: the substitute for ``core`` if a vLLM lacks the names that it needs.

``AsyncCore`` has the methods and guarantees of ``core.Core``. vLLM computes in a process of its own. Every turn is sent
there and back, so small models are slower. The number of engine steps is unknown.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .completion import Completion, failed_completion
from .vllm_arguments import all_arguments

LOG = logging.getLogger(__name__)

WATCH_INTERVAL_S = 1.0


class AsyncCore:
    """One vLLM engine in a child process. If it dies, ``on_death`` is called in the event loop.

    Raises:
        Exception: vLLM could not load the model; its exception is raised unchanged.
    """

    def __init__(
        self,
        arguments: dict[str, Any],
        stop_tokens: Sequence[int],
        on_death: Callable[[], None],
        adapter: Path | None = None,
    ) -> None:
        """Load the model; the arguments are those of ``core.Core``."""
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM

        args = AsyncEngineArgs(**all_arguments(arguments))
        self._llm: Any = AsyncLLM.from_engine_args(args)
        self._lora: Any = None
        if arguments.get("enable_lora"):
            from ..weights.served_adapter import policy_adapter

            self._lora = policy_adapter(str(adapter or "published by the learner"))
        self._adapter = adapter
        self._stop_tokens = list(stop_tokens)
        self._on_death = on_death
        self._watch: asyncio.Task[None] | None = None
        self._prepared = False
        self._running: dict[str, asyncio.Task[None]] = {}
        self._since = 0.0
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.sampled_tokens = 0
        self.steps = 0
        self._busy_s = 0.0

    @property
    def busy_s(self) -> float:
        """Seconds with at least one open request."""
        return self._busy_s + (time.perf_counter() - self._since if self._running else 0.0)

    def add(
        self, name: str, prompt: list[int], max_tokens: int, temperature: float, done: Callable[[Completion], None]
    ) -> None:
        """Start generating; ``done`` is called once, in the event loop. Call this from that loop."""
        if not self._running:
            self._since = time.perf_counter()
        task = asyncio.create_task(self._generate(name, prompt, max_tokens, temperature, done), name=f"request {name}")
        self._running[name] = task
        task.add_done_callback(lambda _: self._ended(name))

    def abort(self, names: list[str]) -> None:
        """End requests early; their ``done`` is never called."""
        for name in names:
            if name in self._running:
                self._running[name].cancel()

    async def update(self, offer: dict[str, Any], version: int) -> None:
        """Load new weights in flight; tokens sampled after this returns carry ``version``."""
        await self._prepare()
        await self._llm.pause_generation(mode="keep", clear_cache=True)
        if offer["adapter"] is None:
            await self._llm.collective_rpc("start_weight_update")
            await self._llm.collective_rpc("update_weights", kwargs={"update_info": {"offer": offer}})
            await self._llm.collective_rpc("finish_weight_update")
        else:
            await self._llm.collective_rpc("update_adapter", kwargs={"update_info": {"offer": offer}})
        await self._llm.update_weight_version(str(version))
        await self._llm.resume_generation()

    async def set_version(self, version: int) -> None:
        """Set the version of the loaded weights."""
        await self._prepare()
        await self._llm.update_weight_version(str(version))

    def shutdown(self) -> None:
        """End the child process."""
        if self._watch is not None:
            self._watch.cancel()
        self._llm.shutdown(timeout=10)

    async def _prepare(self) -> None:
        """Do what needs the event loop, once, before the engine has its first version."""
        if self._watch is None:
            self._watch = asyncio.create_task(self._watch_process(), name="vLLM's process")
        if self._prepared:
            return
        await self._llm.collective_rpc("init_weight_transfer_engine", kwargs={"init_info": {}})
        if self._lora is not None and self._adapter is not None:
            await self._llm.add_lora(self._lora)
        elif self._adapter is not None:
            await self._llm.collective_rpc("merge_adapter", args=(str(self._adapter),))
        self._prepared = True

    async def _watch_process(self) -> None:
        """Report the death of vLLM's process; calls that wait for its answer would never end."""
        while not self._llm.errored:  # noqa: ASYNC110 - vLLM offers nothing to wait for
            await asyncio.sleep(WATCH_INTERVAL_S)
        LOG.error("vLLM's process died; the process ends")
        self._on_death()

    async def _generate(
        self, name: str, prompt: list[int], max_tokens: int, temperature: float, done: Callable[[Completion], None]
    ) -> None:
        from vllm.sampling_params import RequestOutputKind, SamplingParams
        from vllm.v1.engine.exceptions import EngineDeadError

        params = SamplingParams(
            max_tokens=max_tokens,
            temperature=temperature,
            logprobs=0,
            detokenize=False,
            stop_token_ids=self._stop_tokens,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )
        request = {"type": "token", "prompt_token_ids": prompt}
        output: Any = None
        try:
            async for one in self._llm.generate(request, params, name, lora_request=self._lora):
                output = one
            completion = _completion(output.outputs[0])
        except EngineDeadError:
            LOG.exception("vLLM died; the process ends")
            self._on_death()
            return
        except Exception as error:  # noqa: BLE001 - the client of the request raises it
            done(failed_completion(f"vLLM did not answer the request: {error.__cause__ or error!r}"))
            return
        self.prompt_tokens += len(prompt)
        self.cached_tokens += output.num_cached_tokens or 0
        self.sampled_tokens += len(completion.tokens)
        done(completion)

    def _ended(self, name: str) -> None:
        del self._running[name]
        if not self._running:
            self._busy_s += time.perf_counter() - self._since


def _completion(output: Any) -> Completion:
    tokens = list(output.token_ids)
    logprobs = [one[token].logprob for one, token in zip(output.logprobs or [], tokens, strict=False)]
    versions = [int(span.version) for span in output.weight_versions or [] for _ in range(span.start, span.end)]
    return Completion(tokens, logprobs, versions, str(output.finish_reason))
