"""A service as many write it: FastAPI on uvicorn (with uvloop and httptools), requests put together for a moment, and a
thread for each instance of the model. fastapi_service.py SPEC, see runtime.Spec."""

import asyncio
import contextlib
import sys
from concurrent.futures import ThreadPoolExecutor

import uvicorn
from fastapi import FastAPI, Request, Response

from runtime import Model, Spec

spec = Spec.read(sys.argv[1])
models = [Model(spec) for _ in range(spec.instances)]
threads = ThreadPoolExecutor(spec.instances)


async def serve_batches(queue, model):
    """Takes what waits, and for a moment what comes, up to the largest batch."""
    loop = asyncio.get_running_loop()
    while True:
        batch = [await queue.get()]
        until = loop.time() + spec.wait_ms / 1000
        while len(batch) < spec.max_batch:
            try:
                batch.append(queue.get_nowait())
                continue
            except asyncio.QueueEmpty:
                pass
            left = until - loop.time()
            if left <= 0:
                break
            with contextlib.suppress(asyncio.TimeoutError):
                batch.append(await asyncio.wait_for(queue.get(), left))
        answers = await loop.run_in_executor(threads, model.infer, [body for body, _ in batch])
        for (_, future), answer in zip(batch, answers, strict=True):
            if not future.done():
                future.set_result(answer)


@contextlib.asynccontextmanager
async def lifespan(app):
    app.state.queue = asyncio.Queue()
    tasks = [asyncio.create_task(serve_batches(app.state.queue, model)) for model in models]
    yield
    for task in tasks:
        task.cancel()


app = FastAPI(lifespan=lifespan)


@app.post("/infer")
async def infer(request: Request):
    future = asyncio.get_running_loop().create_future()
    request.app.state.queue.put_nowait((await request.body(), future))
    return Response(await future, media_type="application/octet-stream")


uvicorn.run(app, host="127.0.0.1", port=spec.port, log_level="warning", loop="uvloop", http="httptools")
