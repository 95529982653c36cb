"""A deployment of Ray Serve over an engine."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from ray import serve

from camshaft._errors import InvalidArgumentError
from camshaft._values import _NUMPY
from camshaft.ray._engines import Source, load, put
from camshaft.ray._predictor import array_of, own_cpus

# The protocol's names of types that JSON can carry.
_TYPES = {
    "f64": "FP64",
    "f32": "FP32",
    **{f"{sign}{bits}": f"{name}{bits}" for sign, name in (("i", "INT"), ("u", "UINT")) for bits in (8, 16, 32, 64)},
    "bool": "BOOL",
}


class Deployment:
    """Answers requests by handle (`handle.infer.remote({"x": array})`) and over HTTP (JSON of the Open Inference Protocol's
    kind: {"inputs": [{"name", "shape", "datatype", "data"}]}). While one run is under way, requests that come are put
    together: the next run takes them as one batch, with nobody having waited for more to come."""

    def __init__(
        self, engine: Source, max_batch_size: int = 1, device: str | None = None, threads: int = 0, warm_up: bool = True
    ) -> None:
        """max_batch_size: rows of one run; 1: each request runs alone. Others as Predictor has them."""
        self.engine = load(engine, device)
        self._context = self.engine.create_context(threads or own_cpus())
        self._most = max_batch_size
        self._waiting: list[tuple[dict[str, Any], int, asyncio.Future[dict[str, Any]]]] = []
        self._runner: asyncio.Task[None] | None = None
        if max_batch_size < 1:
            raise InvalidArgumentError(f"max_batch_size is 1 or more, not {max_batch_size}")
        fixed = [v.name for v in (*self.engine.inputs, *self.engine.outputs) if not v.shape or v.shape[0] >= 0]
        if max_batch_size > 1 and fixed:
            raise InvalidArgumentError(f"'{fixed[0]}' takes no number of rows: max_batch_size is 1 for this engine")

    async def infer(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """{output: NumPy array} of one request; an array's first axis is its rows."""
        arrays = {}
        for info in self.engine.inputs:
            if info.name not in inputs:
                raise InvalidArgumentError(f"input '{info.name}' ({info.type}) is not given")
            arrays[info.name] = array_of(inputs[info.name], info)
        rows = {len(array) if array.ndim else 1 for array in arrays.values()}
        if self._most > 1 and (len(rows) > 1 or max(rows) > self._most):
            raise InvalidArgumentError(f"a request has equal numbers of rows, {self._most} at most; this has {rows}")
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting.append((arrays, max(rows), future))
        if self._runner is None or self._runner.done():
            self._runner = asyncio.create_task(self._run_all())
        return await future

    async def _run_all(self) -> None:
        while self._waiting:
            await self._answer(self._take())

    async def _answer(self, taken: list[Any]) -> None:
        try:
            results = await self._run([arrays for arrays, _, _ in taken], [rows for _, rows, _ in taken])
        except Exception as error:
            if len(taken) > 1:  # one request's fault is not the others'
                for request in taken:
                    await self._answer([request])
            elif not taken[0][2].done():
                taken[0][2].set_exception(error)
            return
        for (_, _, future), result in zip(taken, results):
            if not future.done():  # its client has gone
                future.set_result(result)

    def _take(self) -> list[Any]:
        """Requests from the front of the line that fit into one batch."""
        taken = [self._waiting.pop(0)]
        rows = taken[0][1]
        shapes = _shapes(taken[0][0])
        while self._most > 1 and self._waiting:
            arrays, more, _ = self._waiting[0]
            if rows + more > self._most or _shapes(arrays) != shapes:
                break
            taken.append(self._waiting.pop(0))
            rows += more
        return taken

    async def _run(self, requests: list[dict[str, Any]], rows: list[int]) -> list[dict[str, Any]]:
        import numpy

        joined = requests[0]
        if len(requests) > 1:
            joined = {name: numpy.concatenate([request[name] for request in requests]) for name in joined}
        outputs = await self._context.run_async(joined)
        arrays = {name: numpy.from_dlpack(output).copy() for name, output in outputs.items()}
        if len(requests) == 1:
            return [arrays]
        ends = numpy.cumsum(rows)
        return [{name: a[end - n : end] for name, a in arrays.items()} for end, n in zip(ends, rows)]

    async def __call__(self, request: Any) -> Any:
        from starlette.responses import JSONResponse

        try:
            inputs = _decoded(await request.json())
            outputs = await self.infer(inputs)
        except (InvalidArgumentError, ValueError, KeyError, TypeError) as error:
            return JSONResponse({"error": f"{error}"}, status_code=400)
        dtypes = {info.name: info.dtype for info in self.engine.outputs}
        return JSONResponse({"outputs": [_encoded(name, array, dtypes[name]) for name, array in outputs.items()]})


def _shapes(arrays: dict[str, Any]) -> list[Any]:
    return [array.shape[1:] for array in arrays.values()]


def _decoded(body: Any) -> dict[str, Any]:
    import numpy

    ours = {theirs: dtype for dtype, theirs in _TYPES.items()}
    inputs = {}
    for value in body["inputs"]:
        if value["datatype"] not in ours:
            raise ValueError(f"input '{value['name']}': {value['datatype']} is none of {', '.join(ours)}")
        array = numpy.asarray(value["data"], _NUMPY[ours[value["datatype"]]])
        inputs[value["name"]] = array.reshape(value["shape"])
    return inputs


def _encoded(name: str, array: Any, dtype: str) -> dict[str, Any]:
    return {
        "name": name,
        "shape": list(array.shape),
        "datatype": _TYPES.get(dtype, "FP32"),
        "data": array.astype("float32").ravel().tolist() if dtype not in _TYPES else array.ravel().tolist(),
    }


def app(
    engine: Source,
    *,
    max_batch_size: int = 1,
    device: str | None = None,
    threads: int = 0,
    name: str = "camshaft",
    **options: Any,
) -> serve.Application:
    """The deployment bound to an engine, for ray.serve.run(). The engine is put into the object store. `options` are those
    of Ray Serve's deployments: num_replicas, autoscaling_config, ray_actor_options={"num_gpus": 0.5}, …"""
    options.setdefault("max_ongoing_requests", max(5, 4 * max_batch_size))
    made = serve.deployment(name=name, **options)(Deployment)
    return made.bind(put(engine), max_batch_size=max_batch_size, device=device, threads=threads)
