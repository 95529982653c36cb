"""The sound of one call while the model hears it."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from camshaft._errors import CancelledError, FileError, InvalidArgumentError, UnsupportedError
from camshaft.llm._transcript import Transcription
from camshaft.llm.openai._errors import RequestError
from camshaft.llm.openai._metrics import Work

if TYPE_CHECKING:
    from camshaft.llm._windows import Task, Windows
    from camshaft.llm.openai._served import ServedSpeech
    from camshaft.llm.openai._transcriptions import Transcriptions


@dataclasses.dataclass
class Heard:
    """What is said up to now. states: of the encoder that were seen; tokens: of all windows, with texts that were no good."""

    transcription: Transcription
    finished: bool
    states: int
    prompt_tokens: int
    generated_tokens: int


class Listening:
    """As Running is of texts. The sound is read and its windows are encoded on one of the model's threads; others wait in
    front of them."""

    def __init__(self, served: ServedSpeech, loop: asyncio.AbstractEventLoop, call: Transcriptions) -> None:
        self._served, self._loop, self._call = served, loop, call
        self._results: asyncio.Queue[Heard | BaseException] = asyncio.Queue()
        self._lock = threading.Lock()
        self._windows: Windows | None = None
        self._task: Task | None = None
        self._is_ended = False

    def start(self) -> None:
        self._served.ears.submit(self._listen)

    def end(self) -> None:
        with self._lock:
            self._is_ended = True
            if self._windows is not None:
                self._windows.cancel()

    @property
    def is_ended(self) -> bool:
        return self._is_ended

    async def outputs(self) -> AsyncIterator[tuple[int, Heard]]:
        finished = False
        while not finished:
            result = await self._results.get()
            if isinstance(result, BaseException):
                raise result
            finished = result.finished
            yield 0, result
        self._is_ended = True

    def work(self) -> list[Work]:
        task = self._task
        if task is None or not task.texts:
            return []
        prompt, generated = _tokens(task)
        reason = "error" if task.failed is not None else "stop" if task.is_done else "abort"
        firsts = [each.first_token_at for each in task.texts if each.first_token_at is not None]
        lasts = [each.last_token_at for each in task.texts if each.last_token_at is not None]
        return [Work(prompt, [generated], [reason], min(firsts, default=None), max(lasts, default=None))]

    def _listen(self) -> None:
        try:
            self._hear()
        except CancelledError:
            pass  # nobody waits
        except (FileError, InvalidArgumentError, UnsupportedError) as error:
            self._tell(RequestError(str(error), "file") if self._task is None else error)
        except BaseException as error:  # of a thread that nobody else looks at
            self._tell(error)

    def _hear(self) -> None:
        whisper, wishes, sound = self._served.whisper, self._call.wishes, self._call.sound
        if self._is_ended:
            return
        name = f"'file' ({sound.name[:80]})" if sound.name else "'file'"
        [task] = whisper._tasks([sound.content], wishes, raises=True, name=name, most=self._served.longest)
        self._call.sound = sound._replace(content=memoryview(b""))
        self._task = task
        with self._lock:
            if self._is_ended:
                return
            self._windows = whisper._listen([task], wishes)
        for _ in self._windows.run():
            if task.failed is not None:
                raise task.failed
            prompt, generated = _tokens(task)
            states = task.windows * whisper._speech.states
            self._tell(Heard(whisper._transcription(task), task.is_done, states, prompt, generated))

    def _tell(self, result: Any) -> None:
        self._loop.call_soon_threadsafe(self._results.put_nowait, result)


def _tokens(task: Task) -> tuple[int, int]:
    """Of prompts, and of texts."""
    return sum(len(each.tokens) for each in task.texts), sum(len(each.outputs[0].token_ids) for each in task.texts)
