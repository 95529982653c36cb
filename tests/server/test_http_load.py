"""Many clients that do right and wrong at random: every answer is right, and nothing is left behind."""

import asyncio
import json
import os
import random
import time

import numpy as np
from serving import serving, write_identity

CLIENTS, ROUNDS = 60, 12


def whole_request(elements, chunked):
    values = np.arange(elements, dtype=np.float32).tobytes()
    tensor = {
        "name": "INPUT0",
        "shape": [1, elements],
        "datatype": "FP32",
        "parameters": {"binary_data_size": len(values)},
    }
    text = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    body = text + values
    head = f"POST /v2/models/fine/infer HTTP/1.1\r\nHost: x\r\nInference-Header-Content-Length: {len(text)}\r\n"
    if chunked:
        return f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def check_answer(reader, elements):
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 "), head
    length = next(
        int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
    )
    assert (await reader.readexactly(length)).endswith(np.arange(elements, dtype=np.float32).tobytes())


async def connection(port, dice):
    """Requests, one at a time or three at once, until it leaves: in order, in the middle, or with nonsense."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answered = 0
    for _ in range(dice.randrange(1, 20)):
        elements = dice.choice((1, 10, 1000, 50_000))
        request = whole_request(elements, dice.random() < 0.3)
        end = dice.random()
        if end < 0.1:
            writer.write(
                request[: dice.randrange(len(request))]
                if end < 0.05
                else request
                if end < 0.08
                else dice.randbytes(100)
            )
            await writer.drain()
            break
        count = 3 if end < 0.3 else 1
        writer.write(request * count)
        await writer.drain()
        for _ in range(count):
            await check_answer(reader, elements)
            answered += 1
    if dice.random() < 0.5:
        writer.transport.abort()
    writer.close()
    return answered


def test_many_clients(tmp_path):
    seed = int(os.environ.get("CAMSHAFT_TEST_SEED", 0)) or random.randrange(1 << 32)
    print(f"CAMSHAFT_TEST_SEED={seed}")
    write_identity(tmp_path, "fine", "FP32", ["n", "m"])
    with serving(tmp_path, "--http-max-input-size=1048576") as server:
        files = f"/proc/{server.process.pid}/fd"
        at_first = len(os.listdir(files))

        async def client(number):
            dice = random.Random(seed + number)
            return sum([await connection(server.ports["HTTP"], dice) for _ in range(ROUNDS)])

        async def everyone():
            return sum(await asyncio.gather(*map(client, range(CLIENTS))))

        answered = asyncio.run(everyone())
        assert answered > CLIENTS * ROUNDS
        before = server.memory()
        asyncio.run(everyone())
        assert server.memory() - before < 64 << 20
        stats = json.loads(server.request("GET", "/v2/models/fine/stats")[2])["model_stats"][0]["inference_stats"]
        assert stats["success"]["count"] >= 2 * answered
        end = time.monotonic() + 30  # connections that were left are closed
        while len(os.listdir(files)) > at_first + 20:
            assert time.monotonic() < end
            time.sleep(0.1)
