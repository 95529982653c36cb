"""What goes wrong with a call, as clients of OpenAI's interface read it."""

from __future__ import annotations

from typing import Any


class RequestError(Exception):
    """param: the field that is wrong; code: OpenAI's name of what is wrong."""

    def __init__(self, message: str, param: str | None = None, status: int = 400, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        kind = "invalid_request_error" if status < 500 else "server_error"
        self.document: dict[str, Any] = {
            "error": {"message": message, "type": kind, "param": param, "code": code},
        }
