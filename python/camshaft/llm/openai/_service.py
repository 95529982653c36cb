"""Calls of a model, many at once, on an event loop: from their bodies to their answers."""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import time
import traceback
from collections.abc import Callable
from typing import Any, Union

from camshaft._errors import Error, InvalidArgumentError
from camshaft.llm.openai._adapters import update_adapters
from camshaft.llm.openai._answer import Answer
from camshaft.llm.openai._body import read_body
from camshaft.llm.openai._call import Call
from camshaft.llm.openai._chat import ChatCompletions
from camshaft.llm.openai._completions import Completions
from camshaft.llm.openai._embeddings import Embeddings
from camshaft.llm.openai._errors import RequestError, param_of
from camshaft.llm.openai._form import read_form
from camshaft.llm.openai._metrics import Metrics
from camshaft.llm.openai._served import Served, ServedSpeech
from camshaft.llm.openai._transcriptions import Transcriptions, Translations

#: By the routes behind /v1/.
_CALLS: dict[str, Any] = {
    "completions": Completions,
    "chat/completions": ChatCompletions,
    "embeddings": Embeddings,
    "audio/transcriptions": Transcriptions,
    "audio/translations": Translations,
}
OPERATIONS = tuple(_CALLS)
#: What is asked of a model beside calls.
_ABOUT_MODELS = ("models", "load_lora_adapter", "unload_lora_adapter")
_READERS = 4  # threads that read bodies: templates, tokenizers
_TOWERS = 1  # threads that take pictures through a tower, which is one at a time
_GRAMMARS = 1  # and those that try grammars, which may take a second each: other calls do not wait for them
_MOST_HELD = 1 << 29  # bytes of sounds that wait


class Service:
    """most_queued: sequences, of texts and sounds, that run and wait together; log_error: of what is nobody's fault but ours."""

    def __init__(
        self,
        served: Union[Served, ServedSpeech],
        most_queued: int,
        metrics: Metrics,
        log_error: Callable[[str], object],
    ) -> None:
        self._served, self._most_queued, self._metrics, self._log_error = served, most_queued, metrics, log_error
        self._sequences = 0  # that calls have asked for and that are not done; on the loop
        self._held = 0  # bytes of their bodies, of sounds; likewise
        self._pool = concurrent.futures.ThreadPoolExecutor(_READERS, "camshaft.llm.read")
        self._towers = concurrent.futures.ThreadPoolExecutor(_TOWERS, "camshaft.llm.towers")
        self._grammars = concurrent.futures.ThreadPoolExecutor(_GRAMMARS, "camshaft.llm.grammars")

    def look(self) -> None:
        """Tells metrics of what runs and waits."""
        running = self._served.llm.statistics
        waiting = 0
        if isinstance(self._served, ServedSpeech):
            known = self._served.llm._steps.between_steps(running)
            waiting = max(self._sequences - known["running"] - known["waiting"], 0)
        self._metrics.look(waiting)

    async def answer(self, operation: str | None, body: Callable[[], bytes], content_type: str, answer: Answer) -> None:
        """operation: of OPERATIONS, None where the fields are to tell; body: reads it, not on the loop. Cancelling ends what runs
        of it."""
        loop, began = asyncio.get_running_loop(), time.monotonic()
        running: Any = None
        held, size = 1, 0  # until its body is read
        call: Call | None = None
        self._sequences += held
        try:
            if self._sequences > self._most_queued:
                raise _overloaded()
            if operation in _ABOUT_MODELS:
                pool = self._pool if operation == "models" else self._grammars
                answer.reply(await loop.run_in_executor(pool, self._about_models, operation, body))
                return
            call = await loop.run_in_executor(self._pool, self._read, operation, body, content_type)
            size = call.held_bytes
            self._held += size
            if self._held > _MOST_HELD:
                raise _overloaded()
            wanted = call.sequences
            if self._sequences - held + wanted > self._most_queued:
                raise _overloaded()
            self._sequences += wanted - held
            held = wanted
            running = call.running(self._served, loop)
            await loop.run_in_executor(self._pool_of(call), running.start)
            await (self._stream(call, running, answer) if call.is_stream else self._reply(call, running, answer))
        except asyncio.CancelledError:
            answer.end()
        except RequestError as error:
            answer.fail(error)
        except (InvalidArgumentError, ValueError) as error:
            param = param_of(str(error), call.prompt_field if call is not None else None)
            if param == "structured_outputs" and call is not None:
                param = call.guide_field
            answer.fail(RequestError(str(error), param))
        except Exception as error:
            if not isinstance(error, Error):
                self._log_error(traceback.format_exc())
            answer.fail(RequestError(f"{type(error).__name__}: {error}", status=500))
        finally:
            self._sequences -= held
            self._held -= size
            if running is not None:
                if not running.is_ended:
                    await asyncio.shield(loop.run_in_executor(None, running.end))
                for work in running.work():
                    self._metrics.ended(work, began)

    def _pool_of(self, call: Call) -> concurrent.futures.Executor:
        """Those that take long keep others from being read otherwise."""
        if call.has_images:
            return self._towers
        return self._grammars if call.is_guided else self._pool

    def _about_models(self, operation: str, data: Callable[[], bytes]) -> str:
        if isinstance(self._served, ServedSpeech):
            raise RequestError(f"The model '{self._served.name}' hears sounds, and has no adapters", "model")
        if operation == "models":
            return json.dumps(self._served.models())
        return update_adapters(self._served, read_body(data()), operation == "load_lora_adapter")

    def _read(self, operation: str | None, data: Callable[[], bytes], content_type: str) -> Call:
        if operation in ("audio/transcriptions", "audio/translations"):
            read: Call = _CALLS[operation](self._served, read_form(data(), content_type))
            return read
        body = read_body(data())
        if operation is None:  # of other doors of the server than OpenAI's
            usual = "embeddings" if body.has("input") else "completions"
            operation = "chat/completions" if body.has("messages") else usual
        if operation not in _CALLS:
            raise RequestError(f"there is no operation '{operation[:80]}': {', '.join(_CALLS)} are what there is")
        served = self._served.named(body.raw("model")) if isinstance(self._served, Served) else self._served
        made: Call = _CALLS[operation](served, body)
        return made

    async def _reply(self, call: Call, running: Any, answer: Answer) -> None:
        outputs: dict[int, Any] = {}
        async for place, output in running.outputs():
            outputs[place] = output
        call.answer_with(answer, [outputs[place] for place in range(len(outputs))])

    async def _stream(self, call: Call, running: Any, answer: Answer) -> None:
        outputs: dict[int, Any] = {}
        async for place, output in running.outputs():
            for event in call.events(place, output):
                answer.event(event)
            outputs[place] = output
        for event in call.last_events([outputs[place] for place in range(len(outputs))]):
            answer.event(event)
        answer.done()


def _overloaded() -> RequestError:
    return RequestError("The server is overloaded: try again later", status=503, code="overloaded")
