"""Deployments of Ray Serve over built language models: OpenAI's interface, by the names of Ray Serve LLM."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Union

from ray import serve
from ray.exceptions import RayError

from camshaft._errors import InvalidArgumentError
from camshaft.llm.openai._answer import JSON, Answer
from camshaft.llm.openai._body import LONGEST_BODY, read_body
from camshaft.llm.openai._errors import RequestError
from camshaft.llm.openai._form import LONGEST_FORM, read_form
from camshaft.llm.openai._loading import MOST_QUEUED, serve_folder
from camshaft.llm.openai._metrics import Metrics
from camshaft.llm.openai._service import OPERATIONS, Service
from camshaft.ray import _metrics
from camshaft.ray._folders import StoredFolder, local_folder, put_folder
from camshaft.ray._predictor import own_cpus

_LOOK = 1.0  # seconds between two looks at what runs
_EVENTS = "text/event-stream; charset=utf-8"


@dataclasses.dataclass
class LLMConfig:
    """Of one model.

    model_loading_config: `model_id`, by which calls name it, and `model_source`, the folder that `camshaft llm build` made; it
        goes to the nodes by the object store.
    engine_kwargs: arguments of LLM, or of Whisper, and `max_queued`: how many sequences may run and wait in a replica, beyond
        which calls get 503 (1024).
    deployment_config: of Ray Serve's deployment: num_replicas, autoscaling_config, ray_actor_options, … A replica has as many
        threads as its actor's num_cpus, unless engine_kwargs has `threads`."""

    model_loading_config: Mapping[str, Any]
    engine_kwargs: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    deployment_config: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        loading = self.model_loading_config
        if not isinstance(loading, Mapping) or set(loading) - {"model_id", "model_source"}:
            raise InvalidArgumentError("model_loading_config is a dict of model_id and model_source")
        if not isinstance(loading.get("model_source"), (str, Path, StoredFolder)):
            raise InvalidArgumentError("model_loading_config: model_source is the folder of a built model")
        if not isinstance(self.model_id, str) or not self.model_id:
            raise InvalidArgumentError(f"model_loading_config: model_id is {self.model_id!r}; a text is needed")
        for name in ("lora_modules", "allow_runtime_lora_updating"):
            if name in self.engine_kwargs:
                raise InvalidArgumentError(
                    f"engine_kwargs has {name}: calls reach no adapters on Ray; `camshaft llm serve` has them, or merge "
                    "each into a model of its own"
                )

    @property
    def model_id(self) -> str:
        source = self.model_loading_config["model_source"]
        named: str = self.model_loading_config.get("model_id") or Path(getattr(source, "name", source)).name
        return named

    def stored(self) -> StoredFolder:
        source = self.model_loading_config["model_source"]
        return source if isinstance(source, StoredFolder) else put_folder(Path(source))


class LLMServer:
    """A replica of one model."""

    def __init__(self, model_id: str, folder: StoredFolder, engine_kwargs: Mapping[str, Any]) -> None:
        parameters = {"threads": own_cpus() or None, **engine_kwargs}
        most_queued = parameters.pop("max_queued", MOST_QUEUED)
        served = serve_folder(local_folder(folder), model_id, parameters, most_queued)
        metrics = Metrics(_metrics, served.llm, model_id)
        self._service = Service(served, most_queued, metrics, logging.getLogger("ray.serve").error)
        self._looking: asyncio.Task[None] | None = None

    async def call(self, operation: str, body: bytes, content_type: str) -> AsyncIterator[tuple[int, str, str]]:
        """What a call is answered with: (status, content type, text), once, or of a stream for each event, the last of which is
        "[DONE]". Ending the iteration ends the call."""
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())
        answer = _Queue()
        answering = asyncio.create_task(self._service.answer(operation, lambda: body, content_type, answer))
        try:
            is_last = False
            while not is_last:
                piece, is_last = await answer.pieces.get()
                if piece is not None:
                    yield piece
        finally:
            answering.cancel()
            await asyncio.gather(answering, return_exceptions=True)

    async def _look(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await loop.run_in_executor(None, self._service.look)
            await asyncio.sleep(_LOOK)


class _Queue(Answer):
    """pieces: of call(), and whether another follows."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: asyncio.Queue[tuple[tuple[int, str, str] | None, bool]] = asyncio.Queue()

    def send_reply(self, text: str, status: int, content_type: str) -> None:
        self.pieces.put_nowait(((status, content_type, text), True))

    def send_event(self, text: str, is_last: bool, name: str = "") -> None:
        lines = f"event: {name}\ndata: {text}\n\n" if name else f"data: {text}\n\n"
        self.pieces.put_nowait(((200, _EVENTS, lines), is_last))

    def send_nothing(self) -> None:
        self.pieces.put_nowait((None, True))


class OpenAiIngress:
    """Routes /v1/models, /v1/models/NAME, and the calls of `camshaft llm serve` to the deployment of the model they name."""

    def __init__(self, servers: Mapping[str, Any]) -> None:
        """servers: handles of LLMServer by their models' names."""
        self._servers = dict(servers)

    async def __call__(self, request: Any) -> Any:
        path = request.url.path.rstrip("/")
        try:
            _, found, route = path.partition("/v1/")
            if not found:
                raise RequestError(f"there is no {path or '/'}: routes begin with /v1/", status=404)
            if request.method == "GET" and route.split("/")[0] == "models":
                return _reply(self._models(route.partition("/")[2]))
            if route not in OPERATIONS:
                raise RequestError(f"there is no /v1/{route[:80]}", status=404)
            if request.method != "POST":
                raise RequestError("Method Not Allowed", status=405)
            body = await _body_of(request, LONGEST_FORM if route.startswith("audio/") else LONGEST_BODY)
            return await self._call(route, body, request.headers.get("content-type", ""))
        except RequestError as error:
            return _reply(error.document, error.status)

    async def _call(self, operation: str, body: bytes, content_type: str) -> Any:
        from starlette.responses import Response, StreamingResponse

        loop = asyncio.get_running_loop()
        name = await loop.run_in_executor(None, _model_of, operation, body, content_type)
        pieces = self._server(name).options(stream=True).call.remote(operation, body, content_type)
        try:
            status, kind, text = await pieces.__anext__()
        except StopAsyncIteration:
            raise RequestError("the model gave no answer", status=500) from None
        except RayError as error:
            raise _lost(error) from None
        if kind != _EVENTS:
            return Response(text, status, _retry(status), kind)

        async def events() -> AsyncIterator[str]:
            try:
                yield text
                async for _, _, more in pieces:
                    yield more
            except RayError as error:
                yield f"data: {json.dumps(_lost(error).document)}\n\ndata: [DONE]\n\n"
            finally:
                pieces.cancel()

        return StreamingResponse(events(), headers={"Cache-Control": "no-cache", "Content-Type": _EVENTS})

    def _server(self, name: str | None) -> Any:
        if name is None and len(self._servers) == 1:
            return next(iter(self._servers.values()))
        if name is None:
            raise RequestError("There are several models: name one in the field 'model'", "model", status=404)
        if name not in self._servers:
            text = f"The model '{name[:200]}' does not exist: GET /v1/models lists those that do"
            raise RequestError(text, "model", status=404, code="model_not_found")
        return self._servers[name]

    def _models(self, name: str) -> dict[str, Any]:
        def shown(each: str) -> dict[str, Any]:
            return {"id": each, "object": "model", "created": 0, "owned_by": "camshaft"}

        if not name:
            return {"object": "list", "data": [shown(each) for each in self._servers]}
        self._server(name)
        return shown(name)


def build_llm_deployment(llm_config: Union[LLMConfig, Mapping[str, Any]]) -> serve.Application:
    """The deployment of one model, without routes; its handle has `call`."""
    config = llm_config if isinstance(llm_config, LLMConfig) else LLMConfig(**llm_config)
    options = {"name": f"LLMServer:{config.model_id.replace('/', '--')}", **config.deployment_config}
    # What is beyond max_queued is refused by the replica, and not held back by Ray.
    options.setdefault("max_ongoing_requests", 2 * config.engine_kwargs.get("max_queued", MOST_QUEUED))
    return serve.deployment(**options)(LLMServer).bind(config.model_id, config.stored(), dict(config.engine_kwargs))


def build_openai_app(llm_serving_args: Mapping[str, Any]) -> serve.Application:
    """For ray.serve.run(), or as the import path of a configuration of `serve run`.

    llm_serving_args: `llm_configs`, a list of LLMConfig or of dicts of its fields, and maybe `ingress_deployment_config`, of Ray
        Serve's deployment in front of them. Raises InvalidArgumentError for models of one name."""
    if unknown := set(llm_serving_args) - {"llm_configs", "ingress_deployment_config"}:
        raise InvalidArgumentError(
            f"there is no {min(unknown)}: llm_configs and ingress_deployment_config are what there is"
        )
    given = llm_serving_args.get("llm_configs") or ()
    configs = [each if isinstance(each, LLMConfig) else LLMConfig(**each) for each in given]
    names = [each.model_id for each in configs]
    if not names or len(set(names)) < len(names):
        raise InvalidArgumentError(f"llm_configs has models of the names {names}: one or more are needed, each its own")
    options = {"name": "OpenAiIngress", "max_ongoing_requests": 2 * MOST_QUEUED * len(names)}
    options |= llm_serving_args.get("ingress_deployment_config") or {}
    servers = {each.model_id: build_llm_deployment(each) for each in configs}
    return serve.deployment(**options)(OpenAiIngress).bind(servers)


def _model_of(operation: str, body: bytes, content_type: str) -> str | None:
    fields = read_form(body, content_type) if operation.startswith("audio/") else read_body(body)
    named: str | None = fields.text("model")
    return named


async def _body_of(request: Any, most: int) -> bytes:
    """No more is held of one that is too long."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise RequestError(f"the body has more than {most} bytes", status=413)
        parts.append(part)
    return b"".join(parts)


def _lost(error: RayError) -> RequestError:
    """A replica that has died is started again; one of the others may answer."""
    logging.getLogger("ray.serve").error(str(error))
    return RequestError("A replica of the model has failed: try again", status=503, code="replica_failed")


def _reply(document: dict[str, Any], status: int = 200) -> Any:
    from starlette.responses import Response

    return Response(json.dumps(document), status, _retry(status), JSON)


def _retry(status: int) -> dict[str, str]:
    return {"Retry-After": "1"} if status == 503 else {}
