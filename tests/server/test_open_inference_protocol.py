"""The Open Inference Protocol (version 2), as its specification has it: without extensions, and without a client."""

import json

import grpc
import numpy as np
import pytest
from jsonschema import Draft202012Validator
from serving import TYPES
from tritonclient.grpc import service_pb2 as messages

TEXT = {"type": "string"}
PARAMETERS = {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}
NAMES = {"enum": list(TYPES)}


def document(required, **optional):
    """The schema of an object: what must be there, and what may."""
    return {"type": "object", "required": list(required), "properties": {**required, **optional}}


def listed(schema):
    return {"type": "array", "items": schema}


TENSOR = document({"name": TEXT, "datatype": NAMES, "shape": listed({"type": "integer", "minimum": -1})})
SERVER = document({"name": TEXT, "version": TEXT, "extensions": listed(TEXT)})
MODEL = document(
    {"name": TEXT, "platform": TEXT, "inputs": listed(TENSOR), "outputs": listed(TENSOR)}, versions=listed(TEXT)
)
LIVE = document({"live": {"const": True}})
READY_MODEL = document({"name": TEXT, "ready": {"const": True}})
OUTPUT = document(
    {"name": TEXT, "datatype": NAMES, "shape": listed({"type": "integer", "minimum": 0}), "data": {"type": "array"}},
    parameters=PARAMETERS,
)
ANSWER = document({"model_name": TEXT, "outputs": listed(OUTPUT)}, model_version=TEXT, id=TEXT, parameters=PARAMETERS)
ERROR = document({"error": {"type": "string", "minLength": 1}})


def fetch(server, schema, path, body=None):
    text = None if body is None else json.dumps(body)
    status, headers, answer = server.request("GET" if body is None else "POST", path, text)
    assert headers["Content-Type"].startswith("application/json"), (path, headers["Content-Type"])
    found = json.loads(answer)
    Draft202012Validator(schema).validate(found)
    assert (status >= 400) == (schema is ERROR), (path, status)
    return found


def rows(more=()):
    first = {"name": "INPUT0", "shape": [2, 16], "datatype": "INT32", "data": list(range(32))}
    return {"inputs": [first, {**first, "name": "INPUT1", "data": [1] * 32}], **dict(more)}


def test_health_and_metadata(server):
    fetch(server, LIVE, "/v2/health/live")
    fetch(server, LIVE, "/v2/health/ready")
    fetch(server, SERVER, "/v2")
    for path in ("/v2/models/simple", "/v2/models/simple/versions/1"):
        assert fetch(server, READY_MODEL, f"{path}/ready") == {"name": "simple", "ready": True}
        model = fetch(server, MODEL, path)
        assert model["name"] == "simple" and model["versions"] == ["1"]
        assert [tensor["name"] for tensor in model["inputs"]] == ["INPUT0", "INPUT1"]
        assert model["outputs"][0] == {"name": "OUTPUT0", "datatype": "INT32", "shape": [-1, 16]}


def test_requests(server):
    for path in ("/v2/models/simple/infer", "/v2/models/simple/versions/1/infer"):
        answer = fetch(server, ANSWER, path, rows({"id": "42"}))
        assert answer["id"] == "42" and answer["model_name"] == "simple" and answer["model_version"] == "1"
        outputs = {output["name"]: output for output in answer["outputs"]}
        assert outputs["OUTPUT0"]["data"] == [i + 1 for i in range(32)]
        assert outputs["OUTPUT1"]["data"] == [i - 1 for i in range(32)]
        assert outputs["OUTPUT0"]["shape"] == [2, 16]
    path = "/v2/models/simple/infer"
    assert "id" not in fetch(server, ANSWER, path, rows())
    answer = fetch(server, ANSWER, path, rows({"outputs": [{"name": "OUTPUT1"}], "parameters": {"of_mine": 3}}))
    assert [output["name"] for output in answer["outputs"]] == ["OUTPUT1"]


VALUES = {"BOOL": [True, False, False, True], "BYTES": ["a", "", "ä\n", '"']}


@pytest.mark.parametrize("datatype", [name for name in TYPES if name != "FP16"])  # which JSON does not carry
def test_types(server, datatype):
    values = VALUES.get(datatype, [0, 1, 2, 100])
    if datatype.startswith(("INT", "UINT")):
        limits = np.iinfo(TYPES[datatype][1])
        values = [int(limits.min), 0, 1, int(limits.max)]
    tensor = {"name": "INPUT0", "shape": [2, 2], "datatype": datatype}
    for data in (values, [values[:2], values[2:]]):  # flat, and nested as the shape is
        path = f"/v2/models/identity_{datatype.lower()}/infer"
        answer = fetch(server, ANSWER, path, {"inputs": [{**tensor, "data": data}]})
        assert answer["outputs"][0] == {**tensor, "name": "OUTPUT0", "data": values}


def changed(**fields):
    request = rows()
    request["inputs"][0].update(fields)
    return request


WRONG = {
    "no inputs": {"id": "x"},
    "an input less": {"inputs": rows()["inputs"][:1]},
    "an unknown input": changed(name="INPUT7"),
    "another type": changed(datatype="FP32"),
    "no type": changed(datatype="FLOAT"),
    "another shape": changed(shape=[2, 15], data=[0] * 30),
    "too few elements": changed(data=[0] * 31),
    "an unknown output": rows({"outputs": [{"name": "OUTPUT7"}]}),
    "elements that are no numbers": changed(data=["x"] * 32),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_refused_requests(server, wrong):
    fetch(server, ERROR, "/v2/models/simple/infer", WRONG[wrong])


def test_unknown_models(server):
    for path in ("/v2/models/none", "/v2/models/none/ready", "/v2/models/simple/versions/7"):
        fetch(server, ERROR, path)
    fetch(server, ERROR, "/v2/models/none/infer", rows())
    fetch(server, ERROR, "/v2/models/simple/versions/7/infer", rows())


def test_grpc(server):
    with grpc.insecure_channel(server.grpc) as channel:

        def call(name, request, answer):
            path = f"/inference.GRPCInferenceService/{name}"
            method = channel.unary_unary(path, type(request).SerializeToString, answer.FromString)
            return method(request, timeout=60)

        assert call("ServerLive", messages.ServerLiveRequest(), messages.ServerLiveResponse).live
        assert call("ServerReady", messages.ServerReadyRequest(), messages.ServerReadyResponse).ready
        for version in ("", "1"):
            request = messages.ModelReadyRequest(name="simple", version=version)
            assert call("ModelReady", request, messages.ModelReadyResponse).ready
            request = messages.ModelMetadataRequest(name="simple", version=version)
            model = call("ModelMetadata", request, messages.ModelMetadataResponse)
            assert model.name == "simple" and list(model.versions) == ["1"] and list(model.inputs[0].shape) == [-1, 16]
        assert call("ServerMetadata", messages.ServerMetadataRequest(), messages.ServerMetadataResponse).version
        request = messages.ModelInferRequest(model_name="simple", id="42")
        for name in ("INPUT0", "INPUT1"):
            tensor = request.inputs.add(name=name, datatype="INT32", shape=[1, 16])
            tensor.contents.int_contents.extend(range(16))
        request.outputs.add(name="OUTPUT0")
        answer = call("ModelInfer", request, messages.ModelInferResponse)
        assert answer.id == "42" and answer.model_name == "simple" and answer.outputs[0].datatype == "INT32"
        assert np.array_equal(np.frombuffer(answer.raw_output_contents[0], np.int32), 2 * np.arange(16))
        with pytest.raises(grpc.RpcError) as raised:
            call("ModelInfer", messages.ModelInferRequest(model_name="none"), messages.ModelInferResponse)
        assert raised.value.code() == grpc.StatusCode.NOT_FOUND
        unknown = messages.ModelReadyRequest(name="none")
        assert not call("ModelReady", unknown, messages.ModelReadyResponse).ready
