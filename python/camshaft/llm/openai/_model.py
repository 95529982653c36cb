"""The model as the server runs it: a process of its own, in which an event loop answers many calls at once."""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import threading
import time
import traceback
from pathlib import Path
from typing import Any

from camshaft._errors import Error, InvalidArgumentError
from camshaft.llm._llm import LLM
from camshaft.llm._lora import named_paths
from camshaft.llm._lora_request import LoRARequest
from camshaft.llm._speculative import config_of_flags
from camshaft.llm.openai._adapters import update_adapters
from camshaft.llm.openai._body import Body, read_body
from camshaft.llm.openai._call import Call, check_sample
from camshaft.llm.openai._chat import ChatCompletions
from camshaft.llm.openai._completions import Completions
from camshaft.llm.openai._embeddings import Embeddings
from camshaft.llm.openai._errors import RequestError, param_of
from camshaft.llm.openai._metrics import Metrics
from camshaft.llm.openai._running import Running
from camshaft.llm.openai._served import Served

_CALLS: dict[str, Any] = {"chat/completions": ChatCompletions, "embeddings": Embeddings}
# Operations beside calls.
_ABOUT_MODELS = ("models", "load_lora_adapter", "unload_lora_adapter")
_LOOK = 0.1  # seconds between two looks for clients that are gone
_READERS = 4  # threads that read bodies: templates, tokenizers
_GRAMMARS = 1  # and those that try grammars, which may take a second each: other calls do not wait for them
_INTEGERS = (
    "max_model_len",
    "max_num_seqs",
    "max_num_batched_tokens",
    "num_blocks",
    "kv_cache_memory_bytes",
    "max_loras",
    "threads",
)


class TritonPythonModel:
    def initialize(self, args: dict[str, str]) -> None:
        import camshaft_worker
        import triton_python_backend_utils as pb_utils

        self._worker, self._utils = camshaft_worker.current, pb_utils
        parameters = _parameters(json.loads(args["model_config"]), Path(self._worker.version_folder))
        self._most_queued = parameters.pop("max_queued", 1024)
        self._allows_updates = parameters.pop("allow_runtime_lora_updating", False)
        adapters = parameters.pop("lora_modules", {})
        llm = LLM(Path(self._worker.version_folder).resolve(), **parameters)  # messages name what the user has
        for name, path in adapters.items():
            llm.add_lora(LoRARequest(name, None, path))
        longest = parameters.get("max_model_len") or llm.description["max_length"]
        self._served = Served(llm, args["model_name"], longest, self._most_queued, str(llm._folder or ""))
        self._metrics = Metrics(pb_utils, llm, args["model_name"])
        self._sequences = 0  # that calls have asked for and that are not done; on the loop
        self._calls: dict[Any, asyncio.Task[None]] = {}
        self._pool = concurrent.futures.ThreadPoolExecutor(_READERS, "camshaft.llm.read")
        self._grammars = concurrent.futures.ThreadPoolExecutor(_GRAMMARS, "camshaft.llm.grammars")
        self._loop = asyncio.new_event_loop()
        self._ending = threading.Event()
        self._threads = [
            threading.Thread(target=self._loop.run_forever, name="camshaft.llm.calls", daemon=True),
            threading.Thread(target=self._watch, name="camshaft.llm.watch", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def execute(self, requests: list[Any]) -> None:
        """Returns at once: the loop answers."""
        for request in requests:
            self._loop.call_soon_threadsafe(self._begin, request, request.get_response_sender())

    def finalize(self) -> None:
        self._ending.set()
        self._loop.call_soon_threadsafe(self._loop.stop)
        for thread in self._threads:
            thread.join(10)

    def _begin(self, request: Any, sender: Any) -> None:
        task = self._loop.create_task(self._answer(request, _Answer(self._utils, sender)))
        self._calls[request] = task
        task.add_done_callback(lambda _: self._calls.pop(request, None))

    async def _answer(self, request: Any, answer: _Answer) -> None:
        running, began = Running(self._served.llm, self._loop), time.monotonic()
        held = 1  # until its body is read
        call: Call | None = None
        self._sequences += held
        try:
            if self._sequences > self._most_queued:
                raise _overloaded()
            operation = json.loads(request.parameters()).get("operation")
            if operation in _ABOUT_MODELS:
                pool = self._grammars if operation != "models" else self._pool
                answer.reply(await self._loop.run_in_executor(pool, self._about_models, request, operation))
                return
            call = await self._loop.run_in_executor(self._pool, self._read, request, operation)
            wanted = call.sequences
            if self._sequences - held + wanted > self._most_queued:
                raise _overloaded()
            self._sequences += wanted - held
            held = wanted
            pool = self._grammars if call.is_guided else self._pool
            await self._loop.run_in_executor(pool, self._start, running, call)
            await (self._stream(call, running, answer) if call.is_stream else self._reply(call, running, answer))
        except asyncio.CancelledError:
            answer.end()
        except RequestError as error:
            answer.fail(error)
        except (InvalidArgumentError, ValueError) as error:
            param = param_of(str(error))
            if param == "structured_outputs" and call is not None:
                param = call.guide_field
            answer.fail(RequestError(str(error), param))
        except Exception as error:
            if not isinstance(error, Error):
                self._utils.Logger.log_error(traceback.format_exc())
            answer.fail(RequestError(f"{type(error).__name__}: {error}", status=500))
        finally:
            self._sequences -= held
            if not running.is_ended:
                await asyncio.shield(self._loop.run_in_executor(None, running.end))
            for each in running.requests:
                self._metrics.ended(each, began)

    def _body(self, request: Any) -> Body:
        return read_body(self._utils.get_input_tensor_by_name(request, "request").as_numpy().flat[0])

    def _about_models(self, request: Any, operation: str) -> Any:
        """The answer to what asks for no text."""
        body = self._body(request)
        if operation == "models":
            return self._served.models()
        return update_adapters(self._served, body, operation == "load_lora_adapter", self._allows_updates)

    def _read(self, request: Any, operation: str | None) -> Call:
        body = self._body(request)
        if operation is None:  # of other doors of the server than OpenAI's
            usual = "embeddings" if body.has("input") else "completions"
            operation = "chat/completions" if body.has("messages") else usual
        return _CALLS.get(operation, Completions)(self._served.named(body.raw("model")), body)

    def _start(self, running: Running, call: Call) -> None:
        running.start(call)

    async def _reply(self, call: Call, running: Running, answer: _Answer) -> None:
        outputs: dict[int, Any] = {}
        async for place, output in running.outputs():
            outputs[place] = output
        answer.reply(call.reply([outputs[place] for place in range(len(outputs))]))

    async def _stream(self, call: Call, running: Running, answer: _Answer) -> None:
        outputs: dict[int, Any] = {}
        async for place, output in running.outputs():
            for sample in output.outputs:
                check_sample(sample)
                if place not in outputs:
                    for choice in call.first_deltas(call.index_of(place, sample)):
                        answer.event(call.chunk(choice))
                for choice in call.deltas(place, output, sample):
                    answer.event(call.chunk(choice))
            outputs[place] = output
        if call.include_usage:
            answer.event(call.usage_chunk([outputs[place] for place in range(len(outputs))]))
        answer.done()

    def _watch(self) -> None:
        """Ends the calls of clients that are gone, and looks at what runs."""
        told: set[Any] = set()  # whose calls are ending: a second time would cut that short
        while not self._ending.wait(_LOOK):
            told &= set(self._calls)
            calls = [request for request in list(self._calls) if request not in told]
            for request in self._worker.which_cancelled(calls) if calls else ():
                task = self._calls.get(request)
                if task is not None:
                    told.add(request)
                    self._loop.call_soon_threadsafe(task.cancel)
            self._metrics.look()


class _Answer:
    """The one reply, or the events of a stream; after either there is nothing more."""

    def __init__(self, utils: Any, sender: Any) -> None:
        self._utils, self._sender = utils, sender
        self._is_stream = self._ended = False

    def reply(self, document: Any, status: int = 200) -> None:
        self._ended = True
        self._sender.send(
            self._response(document, {"status": status}), self._utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
        )

    def event(self, document: dict[str, Any]) -> None:
        self._is_stream = True
        self._sender.send(self._response(document, {"event": True}))

    def done(self) -> None:
        self._ended = True
        final = self._utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
        self._sender.send(self._response("[DONE]", {"event": True}), final)

    def fail(self, error: RequestError) -> None:
        if self._ended:
            return
        if not self._is_stream:
            return self.reply(error.document, error.status)
        self.event(error.document)
        self.done()

    def end(self) -> None:
        if not self._ended:
            self._ended = True
            self._sender.send(flags=self._utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def _response(self, document: Any, parameters: dict[str, Any]) -> Any:
        import numpy as np

        text = document if isinstance(document, str) else json.dumps(document, ensure_ascii=False, allow_nan=False)
        tensor = self._utils.Tensor("response", np.array([text.encode("utf-8", "replace")], np.object_))
        return self._utils.InferenceResponse([tensor], parameters=parameters)


def _overloaded() -> RequestError:
    return RequestError("The server is overloaded: try again later", status=503, code="overloaded")


def _parameters(config: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Of LLM, from `parameters` of the configuration; folder: of the version, from which paths go on."""
    given = {name: value.get("string_value", "") for name, value in config.get("parameters", {}).items()}
    made: dict[str, Any] = {}
    try:
        for name in (*_INTEGERS, "max_queued", "seed"):
            if name in given:
                made[name] = int(given.pop(name))
        if made.get("max_queued", 1) < 1:
            raise ValueError(f"max_queued is {made['max_queued']}: every call would be refused; give 1 or more")
        for name in ("enable_prefix_caching", "enable_lora", "allow_runtime_lora_updating"):
            if name in given:
                made[name] = {"true": True, "false": False}[given.pop(name)]
        guesses = int(given.pop("num_speculative_tokens")) if "num_speculative_tokens" in given else None
    except (KeyError, ValueError) as error:
        raise InvalidArgumentError(f"parameters of the configuration: {error}") from None
    if "lora_modules" in given:
        modules = named_paths(given.pop("lora_modules").split())
        made["lora_modules"] = {name: folder / path for name, path in modules.items()}
    draft = given.pop("speculative_model", None)
    made["speculative_config"] = config_of_flags(draft and str(folder / draft), guesses)
    if "device" in given:
        made["device"] = given.pop("device")
    given.pop("EXECUTION_ENV_PATH", None)
    if given:
        raise InvalidArgumentError(f"the configuration has a parameter '{sorted(given)[0]}' that no language model has")
    return made
