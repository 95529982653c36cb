"""What goes wrong with a call, as clients of OpenAI's interface read it."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from camshaft.llm._sampling_params import SamplingParams

_FIELDS = frozenset(field.name for field in dataclasses.fields(SamplingParams)) | {"length_penalty"}
# What the generator says otherwise.
_NAMES = {"beam_width": "n"}


class RequestError(Exception):
    """param: the field that is wrong; code: OpenAI's name of what is wrong."""

    def __init__(self, message: str, param: str | None = None, status: int = 400, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        kind = "invalid_request_error" if status < 500 else "server_error"
        self.document: dict[str, Any] = {
            "error": {"message": message, "type": kind, "param": param, "code": code},
        }


def overloaded() -> RequestError:
    return RequestError("The server is overloaded: try again later", status=503, code="overloaded")


def param_of(message: str, prompts: str | None = None) -> str | None:
    """The field of SamplingParams that a refusal of the model's begins with; prompts: the field that has these."""
    if re.match(r"(the|a) prompt\b|token \d+ of the prompt\b", message):
        return prompts
    found = re.match(r"[a-z_]+", message)
    name = _NAMES.get(found[0], found[0]) if found is not None else None
    return name if name in _FIELDS else None
