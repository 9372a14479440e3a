"""vLLM's ``AsyncLLM`` with what turnwise needs of it, and nothing around it: no Ray, no clients.

``Vllm.add`` hands a request over and calls back once, when it is finished, with ids, behaviour log-probabilities and
the policy version of every token. It goes past ``AsyncLLM.generate``, which wants a task and an event for each
request; that is the one place that leans on vLLM's inner names (0.32).

``update`` is exact: requests that run through it go on under the new weights, their key-value cache computed anew, and
their earlier tokens keep the log-probabilities and versions of the policy that sampled them.
"""

import itertools
import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .weight_transfer import BACKEND, PARENT_ENV


class Finished(NamedTuple):
    """One finished request, flat and cheap to send."""

    tokens: list[int]
    logprobs: list[float]
    versions: list[int]
    reason: str
    """``stop``, ``length``, ``abort``; anything else says what went wrong."""


class Vllm:
    """One vLLM engine. ``on_death`` is called once if its core process ends by itself."""

    def __init__(self, arguments: dict[str, Any], stop_tokens: Sequence[int], on_death: Callable[[], None]) -> None:
        os.environ[PARENT_ENV] = str(os.getpid())
        from vllm.config import WeightTransferConfig
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM

        backend = arguments.pop("weight_backend", BACKEND)
        self._llm: Any = AsyncLLM.from_engine_args(
            AsyncEngineArgs(
                skip_tokenizer_init=True,
                generation_config="vllm",
                logprobs_mode="processed_logprobs",
                enable_prefix_caching=True,
                disable_log_stats=True,
                use_tqdm_on_load=False,
                worker_extension_cls=f"{__package__}.weight_transfer.WorkerExtension",
                weight_transfer_config=WeightTransferConfig(backend=backend),
                **arguments,
            )
        )
        self._stop_tokens = list(stop_tokens)
        self._on_death = on_death
        self._tasks: Any = None
        self._params: dict[tuple[int, float], Any] = {}
        self._numbers = itertools.count()
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.sampled_tokens = 0

    async def start(self) -> None:
        """Bring up the weight transfer; must be called once, in the event loop that will serve."""
        from vllm.distributed.weight_transfer.base import WeightTransferInitRequest

        self._tasks = await self._llm.get_supported_tasks()
        await self._llm.init_weight_transfer_engine(WeightTransferInitRequest(init_info={}))
        self._llm._run_output_handler()
        self._llm.output_handler.add_done_callback(lambda _: self._on_death())

    async def add(
        self, prompt: list[int], max_tokens: int, temperature: float, done: Callable[[Finished], None]
    ) -> str:
        """Start generating; returns the id to ``abort`` by. ``done`` is called once, from the event loop.

        Raises:
            ValueError: vLLM refuses the request (an empty prompt, or one longer than the context).
        """
        llm, name = self._llm, str(next(self._numbers))
        request = llm.input_processor.process_inputs(
            name,
            {"type": "token", "prompt_token_ids": prompt},
            self._sampling(max_tokens, temperature),
            supported_tasks=self._tasks,
        )
        llm.input_processor.assign_request_id(request)
        llm.output_processor.add_request(request, None, None, 0, _Sink(self, done))
        await llm.engine_core.add_request_async(request)
        return name

    async def abort(self, names: list[str]) -> None:
        """End requests early; each still calls back, with what it has."""
        await self._llm.abort(names)

    async def update(self, info: dict[str, Any], version: int) -> None:
        """Load new weights in flight; tokens sampled after this returns carry ``version``."""
        from vllm.distributed.weight_transfer.base import WeightTransferUpdateRequest

        core = self._llm.engine_core
        await core.pause_scheduler_async(mode="keep", clear_cache=True)
        await self._llm.start_weight_update()
        await self._llm.update_weights(WeightTransferUpdateRequest(update_info=info))
        await self._llm.finish_weight_update(weight_version=str(version))
        await core.resume_scheduler_async()

    async def label(self, version: int) -> None:
        """Call the weights as loaded from disk ``version``."""
        await self._llm.update_weight_version(str(version))

    def core_pid(self) -> int | None:
        """The process id of vLLM's core process."""
        manager = self._llm.engine_core.resources.engine_manager
        processes = [] if manager is None else manager.processes
        return processes[0].pid if processes else None

    def shutdown(self) -> None:
        """End the core process."""
        self._on_death = lambda: None
        self._llm.shutdown()

    def note(self, output: Any) -> Finished:
        """What a vLLM output says, flat."""
        completion = output.outputs[0]
        tokens = list(completion.token_ids)
        self.prompt_tokens += len(output.prompt_token_ids)
        self.cached_tokens += output.num_cached_tokens or 0
        self.sampled_tokens += len(tokens)
        versions: list[int] = []
        for span in completion.weight_versions or ():
            versions += [int(span.version)] * (span.end - span.start)
        logprobs = completion.logprobs.logprobs if tokens else []
        if not len(tokens) == len(logprobs) == len(versions):
            reason = f"vLLM gave {len(tokens)} ids, {len(logprobs)} log-probabilities, {len(versions)} versions"
            return Finished([], [], [], reason)
        return Finished(tokens, logprobs, versions, completion.finish_reason or "unfinished")

    def _sampling(self, max_tokens: int, temperature: float) -> Any:
        params = self._params.get((max_tokens, temperature))
        if params is None:
            from vllm import SamplingParams
            from vllm.sampling_params import RequestOutputKind

            params = self._params[max_tokens, temperature] = SamplingParams(
                max_tokens=max_tokens,
                temperature=temperature,
                logprobs=0,
                flat_logprobs=True,
                detokenize=False,
                stop_token_ids=self._stop_tokens,
                output_kind=RequestOutputKind.FINAL_ONLY,
                skip_clone=True,
            )
        return params


class _Sink:
    """Stands where vLLM expects a request's output queue."""

    __slots__ = ("_done", "_vllm")

    def __init__(self, vllm: Vllm, done: Callable[[Finished], None]) -> None:
        self._vllm = vllm
        self._done = done

    def put(self, output: Any) -> None:
        """Called by vLLM with the request's final output, or with what killed the engine."""
        if isinstance(output, Exception):
            self._done(Finished([], [], [], f"the engine died: {output!r}"))
        elif output.finished:
            self._done(self._vllm.note(output))
