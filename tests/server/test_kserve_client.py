"""KServe's own client (`pip install kserve`), where it is installed: version 2 of its protocol over REST and gRPC."""

import asyncio

import numpy as np
import pytest

kserve = pytest.importorskip("kserve")

from kserve.protocol.infer_type import RequestedOutput
from serving import TYPES

NUMBERS = [name for name in TYPES if name not in ("BYTES", "FP16")]  # JSON does not carry the last


def request(model, array, binary, datatype):
    given = kserve.InferInput("INPUT0", list(array.shape), datatype)
    given.set_data_from_numpy(array, binary_data=binary)
    outputs = [RequestedOutput("OUTPUT0", {"binary_data": binary})]
    return kserve.InferRequest(model, [given], request_id="42", request_outputs=outputs)


async def check_rest(server):
    client = kserve.InferenceRESTClient(kserve.RESTConfig(protocol="v2"))
    base = f"http://{server.http}"
    assert await client.is_server_live(base)
    assert await client.is_server_ready(base)
    assert await client.is_model_ready(base, "simple")
    for datatype in NUMBERS:
        array = np.array([[0, 1, 2], [3, 4, 5]]).astype(TYPES[datatype][1])
        for binary in (True, False):
            model = f"identity_{datatype.lower()}"
            answer = await client.infer(base, request(model, array, binary, datatype), model_name=model)
            assert answer.id == "42" and answer.model_name == model
            np.testing.assert_array_equal(answer.outputs[0].as_numpy(), array)
    with pytest.raises(Exception, match="400|404"):
        await client.infer(base, request("none", np.zeros((1, 1), np.float32), True, "FP32"), model_name="none")
    await client.close()


async def check_grpc(server):
    client = kserve.InferenceGRPCClient(server.grpc)
    assert await client.is_server_live()
    assert await client.is_server_ready()
    assert await client.is_model_ready("simple")
    for datatype in NUMBERS:
        array = np.array([[0, 1, 2], [3, 4, 5]]).astype(TYPES[datatype][1])
        for binary in (True, False):
            answer = await client.infer(request(f"identity_{datatype.lower()}", array, binary, datatype))
            assert answer.id == "42"
            np.testing.assert_array_equal(answer.outputs[0].as_numpy(), array)
    await client.close()


def test_rest(server):
    asyncio.run(check_rest(server))


def test_grpc(server):
    asyncio.run(check_grpc(server))
