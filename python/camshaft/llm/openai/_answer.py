"""What a call is answered with, by whatever carries it: the one reply, or the events of a stream; after either there is nothing
more."""

from __future__ import annotations

import json
from typing import Any

from camshaft.llm.openai._errors import RequestError

JSON = "application/json"


class Answer:
    def __init__(self) -> None:
        self._is_stream = self._ended = False

    def send_reply(self, text: str, status: int, content_type: str) -> None:
        raise NotImplementedError

    def send_event(self, text: str, is_last: bool) -> None:
        raise NotImplementedError

    def send_nothing(self) -> None:
        """Of a call that ends without an answer, as nobody waits for it."""
        raise NotImplementedError

    def reply(self, content: dict[str, Any] | str, status: int = 200, content_type: str = JSON) -> None:
        """content: a document, or a text of another type."""
        self._ended = True
        self.send_reply(content if isinstance(content, str) else _written(content), status, content_type)

    def event(self, document: dict[str, Any]) -> None:
        self._is_stream = True
        self.send_event(_written(document), False)

    def done(self) -> None:
        self._ended = True
        self.send_event("[DONE]", True)

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
            self.send_nothing()


def _written(document: dict[str, Any]) -> str:
    return json.dumps(document, ensure_ascii=False, allow_nan=False)
