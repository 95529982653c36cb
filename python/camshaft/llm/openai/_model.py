"""The model as the server runs it: a process of its own, in which an event loop answers many calls at once."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

from camshaft.llm.openai._answer import JSON, Answer
from camshaft.llm.openai._loading import load
from camshaft.llm.openai._metrics import Metrics
from camshaft.llm.openai._service import Service

_LOOK = 0.1  # seconds between two looks for clients that are gone


class TritonPythonModel:
    def initialize(self, args: dict[str, str]) -> None:
        import camshaft_worker
        import triton_python_backend_utils as pb_utils

        self._worker, self._utils = camshaft_worker.current, pb_utils
        parameters = json.loads(args["model_config"]).get("parameters", {})
        given = {name: value.get("string_value", "") for name, value in parameters.items()}
        base = Path(self._worker.version_folder)
        served, most_queued = load(base.resolve(), args["model_name"], given, base)  # messages name what the user has
        metrics = Metrics(pb_utils, served.llm, args["model_name"])
        self._service = Service(served, most_queued, metrics, pb_utils.Logger.log_error)
        self._calls: dict[Any, asyncio.Task[None]] = {}
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
        parameters = json.loads(request.parameters())

        def body() -> bytes:
            data: bytes = self._utils.get_input_tensor_by_name(request, "request").as_numpy().flat[0]
            return data

        answering = self._service.answer(
            parameters.get("operation"),
            body,
            str(parameters.get("content_type", "")),
            _ResponseSender(self._utils, sender),
        )
        task = self._loop.create_task(answering)
        self._calls[request] = task
        task.add_done_callback(lambda _: self._calls.pop(request, None))

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
            self._service.look()


class _ResponseSender(Answer):
    def __init__(self, utils: Any, sender: Any) -> None:
        super().__init__()
        self._utils, self._sender = utils, sender

    def send_reply(self, text: str, status: int, content_type: str) -> None:
        parameters: dict[str, Any] = {"status": status}
        if content_type != JSON:
            parameters["content_type"] = content_type
        self._sender.send(self._response(text, parameters), self._utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def send_event(self, text: str, is_last: bool, name: str = "") -> None:
        flags = {"flags": self._utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL} if is_last else {}
        named = {"event_name": name} if name else {}
        self._sender.send(self._response(text, {"event": True, **named}), **flags)

    def send_nothing(self) -> None:
        self._sender.send(flags=self._utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def _response(self, text: str, parameters: dict[str, Any]) -> Any:
        import numpy as np

        tensor = self._utils.Tensor("response", np.array([text.encode("utf-8", "replace")], np.object_))
        return self._utils.InferenceResponse([tensor], parameters=parameters)
