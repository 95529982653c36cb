"""What a call is answered with, by whatever carries it: the one reply, or the events of a stream; after either there is nothing
more."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from camshaft.llm.openai._errors import RequestError

if TYPE_CHECKING:
    from camshaft.llm.openai._call import Call

JSON = "application/json"


class Answer:
    def __init__(self) -> None:
        self._is_stream = self._ended = False

    def send_reply(self, text: str, status: int, content_type: str) -> None:
        raise NotImplementedError

    def send_event(self, text: str, is_last: bool, name: str = "") -> None:
        """name: of the event's kind, where it has one."""
        raise NotImplementedError

    def send_nothing(self) -> None:
        """Of a stream that has ended, or of a call without an answer, as nobody waits for it."""
        raise NotImplementedError

    def reply(self, content: dict[str, Any] | str, status: int = 200, content_type: str = JSON) -> None:
        """content: a document, or a text of another type."""
        self._ended = True
        self.send_reply(content if isinstance(content, str) else _written(content), status, content_type)

    def event(self, document: dict[str, Any]) -> None:
        """Events that say of which type they are have that as a name, too, as OpenAI's do."""
        self._is_stream = True
        self.send_event(_written(document), False, str(document.get("type", "")))

    def done(self, has_mark: bool = True) -> None:
        """has_mark: whether a last event says so, which is no document."""
        if not has_mark:
            return self.end()
        self._ended = True
        self.send_event("[DONE]", True)

    def fail(self, error: RequestError, call: Call | None = None) -> None:
        """call: what was asked, where that is known: its streams have errors of their own."""
        if self._ended:
            return
        if not self._is_stream:
            return self.reply(error.document, error.status)
        self.event(error.document if call is None else call.error_event(error))
        self.done(call is None or call.has_done_mark)

    def end(self) -> None:
        if not self._ended:
            self._ended = True
            self.send_nothing()


def _written(document: dict[str, Any]) -> str:
    return json.dumps(document, ensure_ascii=False, allow_nan=False)
