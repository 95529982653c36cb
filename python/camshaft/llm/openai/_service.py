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
from camshaft.llm._lora_request import NoLoraPlaceError
from camshaft.llm.openai._adapters import update_adapters
from camshaft.llm.openai._answer import Answer
from camshaft.llm.openai._body import read_body
from camshaft.llm.openai._call import Call
from camshaft.llm.openai._chat import ChatCompletions
from camshaft.llm.openai._completions import Completions
from camshaft.llm.openai._embeddings import Embeddings
from camshaft.llm.openai._errors import RequestError, overloaded, param_of
from camshaft.llm.openai._form import read_form
from camshaft.llm.openai._metrics import Metrics
from camshaft.llm.openai._responses import Responses
from camshaft.llm.openai._served import Served, ServedSpeech
from camshaft.llm.openai._transcriptions import Transcriptions, Translations

#: By the routes behind /v1/.
_CALLS: dict[str, Any] = {
    "completions": Completions,
    "chat/completions": ChatCompletions,
    "responses": Responses,
    "embeddings": Embeddings,
    "audio/transcriptions": Transcriptions,
    "audio/translations": Translations,
}
OPERATIONS = tuple(_CALLS)
_UPDATES = ("load_lora_adapter", "unload_lora_adapter")
_READERS = 4  # threads that read bodies: templates, tokenizers
_PICTURES = 1  # and those that read bodies with pictures, which are resized one at a time: texts do not wait for them
_TOWERS = 1  # threads that take pictures through a tower, which is one at a time
_GRAMMARS = 1  # and those that try grammars, which may take a second each: other calls do not wait for them
# Bytes of sounds, and of pictures as towers read them, of all calls; one alone may have more, as its length allows.
_MOST_HELD = 1 << 29


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
        self._held = 0  # bytes of their sounds and pictures; likewise
        self._pool = concurrent.futures.ThreadPoolExecutor(_READERS, "camshaft.llm.read")
        self._pictures = concurrent.futures.ThreadPoolExecutor(_PICTURES, "camshaft.llm.pictures")
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
        if operation == "models":  # also of a server that has no place for calls
            self._list_models(answer)
            return
        loop, began = asyncio.get_running_loop(), time.monotonic()
        running: Any = None
        held, size = 1, 0  # until its body is read
        call: Call | None = None
        self._sequences += held
        try:
            if self._sequences > self._most_queued:
                raise overloaded()
            if operation in _UPDATES:
                answer.reply(await loop.run_in_executor(self._grammars, self._update_adapters, operation, body))
                return
            data = await loop.run_in_executor(self._pool, body)
            call = await loop.run_in_executor(self._reader_of(data), self._read, operation, data, content_type)
            del data
            size = call.held_bytes
            self._held += size
            if self._held > max(_MOST_HELD, size):
                raise overloaded()
            wanted = call.sequences
            if self._sequences - held + wanted > self._most_queued:
                raise overloaded()
            self._sequences += wanted - held
            held = wanted
            running = call.running(self._served, loop)
            if call.has_images and call.is_guided:  # pictures of others do not wait for its grammar
                await loop.run_in_executor(self._grammars, running.read_grammar)
            await loop.run_in_executor(self._pool_of(call), running.start)
            await (self._stream(call, running, answer) if call.is_stream else self._reply(call, running, answer))
        except asyncio.CancelledError:
            answer.end()
        except RequestError as error:
            answer.fail(error, call)
        except NoLoraPlaceError:
            answer.fail(overloaded(), call)
        except (InvalidArgumentError, ValueError) as error:
            param = param_of(str(error), call.prompt_field if call is not None else None)
            if param == "structured_outputs" and call is not None:
                param = call.guide_field
            answer.fail(RequestError(str(error), param), call)
        except Exception as error:
            if not isinstance(error, Error):
                self._log_error(traceback.format_exc())
            answer.fail(RequestError(f"{type(error).__name__}: {error}", status=500), call)
        finally:
            self._sequences -= held
            self._held -= size
            if running is not None:
                if not running.is_ended:
                    await asyncio.shield(loop.run_in_executor(None, running.end))
                for work in running.work():
                    self._metrics.ended(work, began)

    def _reader_of(self, data: bytes) -> concurrent.futures.Executor:
        may_have_images = isinstance(self._served, Served) and self._served.llm.image_encoder is not None
        return self._pictures if may_have_images and b"image_url" in data else self._pool

    def _pool_of(self, call: Call) -> concurrent.futures.Executor:
        """Those that take long keep others from being read otherwise."""
        if call.has_images:
            return self._towers
        return self._grammars if call.is_guided else self._pool

    def _list_models(self, answer: Answer) -> None:
        try:
            answer.reply(json.dumps(self._with_adapters().models()))
        except RequestError as error:
            answer.fail(error)

    def _update_adapters(self, operation: str, data: Callable[[], bytes]) -> str:
        return update_adapters(self._with_adapters(), read_body(data()), operation == "load_lora_adapter")

    def _with_adapters(self) -> Served:
        if isinstance(self._served, ServedSpeech):
            raise RequestError(f"The model '{self._served.name}' hears sounds, and has no adapters", "model")
        return self._served

    def _read(self, operation: str | None, data: bytes, content_type: str) -> Call:
        if operation in ("audio/transcriptions", "audio/translations"):
            read: Call = _CALLS[operation](self._served, read_form(data, content_type))
            return read
        body = read_body(data)
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
        answer.done(call.has_done_mark)
