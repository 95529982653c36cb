"""Text by a built language model, for many requests at once."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from camshaft import _native
from camshaft._engine import Engine, devices
from camshaft._errors import CorruptEngineError, FileError, InvalidArgumentError
from camshaft.llm._optional import needed
from camshaft.llm._outputs import RequestOutput
from camshaft.llm._requests import Request
from camshaft.llm._sampling_params import SamplingParams

if TYPE_CHECKING:
    from camshaft._types import Path as AnyPath

#: A text, or the numbers of its tokens.
Prompt = Union[str, Sequence[int]]


class LLM:
    """The model of a folder that `camshaft llm build` made.

    llm = LLM("llama")
    for output in llm.generate(["Once upon a time", "The answer is"], SamplingParams(max_tokens=64)):
        print(output.outputs[0].text)

    model: the folder, or an engine, of which `description` is what its llm.json would say.
    max_model_len: tokens of the longest sequence; the model's without it.
    max_num_seqs: sequences that are decoded at once; max_num_batched_tokens: tokens of a step, with parts of prompts.
    num_blocks: blocks of the cache; kv_cache_memory_bytes: its bytes. Without either as many as all sequences may need, and
        a quarter of the device's memory at most.
    enable_prefix_caching: whether beginnings of prompts that were computed are used again.
    speculative_config: {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4, "prompt_lookup_min": 2}.
    seed: of requests that have none.
    threads: of the engine; one for each core without it.

    May be used from several threads, and from event loops (generate_async); all requests run together."""

    def __init__(
        self,
        model: AnyPath | Engine,
        *,
        description: dict[str, Any] | None = None,
        device: str | None = None,
        max_model_len: int | None = None,
        max_num_seqs: int = 32,
        max_num_batched_tokens: int = 512,
        num_blocks: int | None = None,
        kv_cache_memory_bytes: int | None = None,
        enable_prefix_caching: bool = True,
        speculative_config: dict[str, Any] | None = None,
        seed: int = 0,
        threads: int | None = None,
    ) -> None:
        self._folder: Path | None = None
        if isinstance(model, Engine):
            self.engine, self.description = model, dict(description or {})
        else:
            self._folder = Path(os.fspath(model))
            self.description = _read_description(self._folder)
            self.engine = Engine(self._folder / "model.engine", device)
        longest = max_model_len or self.description.get("max_length")
        if longest is None:
            raise InvalidArgumentError("max_model_len is needed for an engine without a description")
        _, block_size, block_bytes = _native.generator_cache(self.engine._engine)
        if num_blocks is None:
            per_sequence = -(-longest // block_size)
            budget = kv_cache_memory_bytes or _memory_of(self.engine.device) // 4
            num_blocks = max(min(per_sequence * max_num_seqs, budget // block_bytes), 1)
            if kv_cache_memory_bytes is None:
                num_blocks = max(num_blocks, per_sequence)
        configuration = {
            "max_num_seqs": max_num_seqs,
            "max_num_batched_tokens": max(max_num_batched_tokens, max_num_seqs),
            "max_model_len": longest,
            "num_blocks": num_blocks,
            "enable_prefix_caching": enable_prefix_caching,
            "eos_token_ids": list(self.description.get("eos_ids") or ()),
            "seed": seed,
            **_speculation(speculative_config),
        }
        self._generator = _native.create_generator(self.engine._engine, json.dumps(configuration), threads or 0)
        self._tokenizer: Any = None
        self._requests: dict[int, Request] = {}
        self._numbers = itertools.count()
        self._lock = _FairLock()  # of what is above, and of steps
        self._work = threading.Event()  # there are requests
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()  # of the thread

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        priority: Sequence[int] | None = None,
    ) -> list[RequestOutput]:
        """The texts of prompts, in their order. A prompt is a text or a list of tokens' numbers; sampling_params one for
        all, or one for each; priority, where lower ones run first, one for each.

        Raises InvalidArgumentError for what could never run; what goes wrong later is in the output's `error`."""
        requests = self._add_all(prompts, sampling_params, priority, None)
        try:
            while not all(request.finished for request in requests):
                self._step()
        finally:
            self._abort(requests)
        return [_result_of(request) for request in requests]

    def stream(
        self,
        prompts: Prompt | Sequence[Prompt],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        priority: Sequence[int] | None = None,
    ) -> Iterator[RequestOutput]:
        """The same while they grow: after each step the outputs that have changed, each with all of its text so far."""
        results: list[_Result] = []
        requests = self._add_all(prompts, sampling_params, priority, results.append)
        try:
            while results or not all(request.finished for request in requests):
                if not results:
                    self._step()
                ready, results[:] = list(results), []
                for result in ready:
                    yield _checked(result)
        finally:
            self._abort(requests)

    async def generate_async(
        self,
        prompt: Prompt,
        sampling_params: SamplingParams | None = None,
        request_id: str | None = None,
        *,
        priority: int = 0,
    ) -> AsyncIterator[RequestOutput]:
        """For event loops: `async for output in llm.generate_async(...)` gives the text so far after each step that it grew
        in. The request ends with the loop around it."""
        loop = asyncio.get_running_loop()
        results: asyncio.Queue[_Result] = asyncio.Queue()

        def changed(result: _Result) -> None:
            if not loop.is_closed():  # of one that has ended nobody waits
                loop.call_soon_threadsafe(results.put_nowait, result)

        params = sampling_params or SamplingParams()
        request = await loop.run_in_executor(None, self._add, prompt, params, priority, changed, request_id)
        try:
            self._start_thread()
            finished = False
            while not finished:
                result = _checked(await results.get())
                finished = result.finished
                yield result
        finally:
            if not request.finished:
                await asyncio.shield(loop.run_in_executor(None, self._abort, [request]))

    def abort(self, request_id: str) -> bool:
        """Ends the requests of this name, whose outputs end with the finish reason "abort". False where there is none."""
        with self._lock:
            found = [request for request in self._requests.values() if request.id == request_id]
            for request in found:
                _native.generator_abort(self._generator, request.number, -1)
        return bool(found)

    @property
    def tokenizer(self) -> Any:
        """Of the package `tokenizers`; None where the folder has no tokenizer.json."""
        if self._tokenizer is None and self._folder is not None and (self._folder / "tokenizer.json").exists():
            tokenizers = needed("tokenizers", f"{self._folder}: text needs a tokenizer")
            self._tokenizer = tokenizers.Tokenizer.from_file(str(self._folder / "tokenizer.json"))
        return self._tokenizer

    def statistics(self) -> dict[str, int]:
        """Counts since the start: steps, tokens that were computed, generated, guessed and accepted, preemptions, and blocks
        of the cache; requests that run and wait."""
        return _native.generator_statistics(self._generator)

    def _add_all(self, prompts: Any, params: Any, priority: Sequence[int] | None, changed: Any) -> list[Request]:
        listed = _listed(prompts)
        chosen = [params or SamplingParams()] * len(listed) if not isinstance(params, Sequence) else list(params)
        priorities = [0] * len(listed) if priority is None else list(priority)
        for what, given in (("sampling_params", chosen), ("priority", priorities)):
            if len(given) != len(listed):
                raise InvalidArgumentError(f"{what} has {len(given)} items for {len(listed)} prompts")
        requests: list[Request] = []
        try:
            for prompt, one, urgency in zip(listed, chosen, priorities):
                requests.append(self._add(prompt, one, urgency, changed, None))
        except BaseException:
            self._abort(requests)
            raise
        return requests

    def _add(self, prompt: Prompt, params: SamplingParams, priority: int, changed: Any, name: str | None) -> Request:
        tokenizer = self.tokenizer if isinstance(prompt, str) or params.detokenize else None
        if isinstance(prompt, str):
            if tokenizer is None:
                raise InvalidArgumentError(
                    "the model has no tokenizer.json: give the prompt as a list of tokens' numbers"
                )
            text, tokens = prompt, tokenizer.encode(prompt).ids
        else:
            text, tokens = None, [int(token) for token in prompt]
        decode = None
        if tokenizer is not None:

            def decode(ids: list[int], skip_special_tokens: bool) -> str:
                return tokenizer.decode(ids, skip_special_tokens=skip_special_tokens)

        elif params.stop_strings:
            raise InvalidArgumentError("stop strings are looked for in text, and the model has no tokenizer.json")
        with self._lock:
            request = Request(name or str(next(self._numbers)), text, tokens, params, decode, changed)
            request.number = _native.generator_add(self._generator, tokens, params._json(), priority, 0)
            try:
                for sample in range(params.n):
                    self._mask(request, sample)
            except BaseException:
                _native.generator_abort(self._generator, request.number, -1)
                raise
            self._requests[request.number] = request
            self._work.set()
        return request

    def _step(self) -> None:
        """One step, whoever asked for it, and what it gave to those whom it belongs to."""
        with self._lock:
            told: dict[int, Request] = {}
            for event in _native.generator_step(self._generator):
                request = self._requests.get(event[0])
                if request is None:
                    continue
                told[request.number] = request
                try:
                    if request.take(event):
                        _native.generator_abort(self._generator, request.number, event[1])
                    elif event[6] is None:
                        self._mask(request, event[1])
                except Exception as error:  # of the tokenizer or the caller's mask: its request's alone
                    request.failed = error
                    _native.generator_abort(self._generator, request.number, -1)
            for request in told.values():
                if request.finished:
                    self._requests.pop(request.number, None)
                if request.changed is not None:
                    request.changed(request.failed or request.output())
            if not self._requests:
                self._work.clear()

    def _mask(self, request: Request, sample: int) -> None:
        if request.params.token_mask is None:
            return
        mask = request.params.token_mask(list(request.outputs[sample].token_ids))
        data = b"" if mask is None else mask if isinstance(mask, bytes) else mask.tobytes()
        _native.generator_set_allowed_tokens(self._generator, request.number, sample, data)

    def _abort(self, requests: Sequence[Request]) -> None:
        with self._lock:
            for request in requests:
                if self._requests.pop(request.number, None) is not None:
                    _native.generator_abort(self._generator, request.number, -1)

    def _fail_all(self, error: Exception) -> None:
        with self._lock:
            for request in self._requests.values():
                _native.generator_abort(self._generator, request.number, -1)
                request.failed = error
                if request.changed is not None:
                    request.changed(error)
            self._requests.clear()
            self._work.clear()

    def _start_thread(self) -> None:
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="camshaft.llm", daemon=True)
                self._thread.start()

    def _serve(self) -> None:
        """Steps for event loops, until there was nothing to do for a while."""
        while True:
            if self._work.wait(timeout=10):
                try:
                    self._step()
                except Exception as error:  # nobody else would hear of it
                    self._fail_all(error)
                continue
            with self._starting:
                if not self._work.is_set():
                    self._thread = None
                    return


class _FairLock:
    """Who takes it again and again, as a thread that runs steps does, lets those that wait go first."""

    def __init__(self) -> None:
        self._gate, self._lock = threading.Lock(), threading.Lock()

    def __enter__(self) -> None:
        with self._gate:
            self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


_Result = Union[RequestOutput, BaseException]


def _checked(result: _Result) -> RequestOutput:
    if isinstance(result, BaseException):
        raise result
    return result


def _result_of(request: Request) -> RequestOutput:
    return _checked(request.failed or request.output())


def _listed(prompts: Any) -> list[Any]:
    """A text and a list of numbers are one prompt each."""
    if isinstance(prompts, str):
        return [prompts]
    listed = list(prompts)
    return [listed] if listed and not isinstance(listed[0], (str, Sequence)) and _is_number(listed[0]) else listed


def _is_number(value: Any) -> bool:
    return hasattr(value, "__index__")


def _read_description(folder: Path) -> dict[str, Any]:
    path = folder / "llm.json"
    try:
        description = json.loads(path.read_text())
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}: `camshaft llm build` makes the folder of a model") from None
    except ValueError as error:
        raise CorruptEngineError(f"{path}: {error}") from None
    if not isinstance(description, dict):
        raise CorruptEngineError(f"{path}: not an object")
    return description


def _speculation(config: dict[str, Any] | None) -> dict[str, int]:
    if config is None:
        return {}
    known = {"method", "num_speculative_tokens", "prompt_lookup_max", "prompt_lookup_min"}
    if unknown := set(config) - known:
        raise InvalidArgumentError(f"speculative_config has no {sorted(unknown)[0]}; it has {', '.join(sorted(known))}")
    if config.get("method", "ngram") != "ngram":
        raise InvalidArgumentError(f"speculative_config: the method {config['method']!r} is none; ngram is one")
    most = config.get("prompt_lookup_max", 4)
    return {
        "num_speculative_tokens": config.get("num_speculative_tokens", 4),
        "prompt_lookup_max": most,
        "prompt_lookup_min": config.get("prompt_lookup_min", min(2, most)),
    }


def _memory_of(device: str) -> int:
    """Bytes."""
    for each in devices():
        if each.get("device", each.get("name")) == device and each.get("memory_bytes"):
            return int(each["memory_bytes"])
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
