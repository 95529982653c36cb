"""Makes what the fuzzers start from, out of the ONNX package: fuzz_seeds.py FOLDER

FOLDER/reader-seeds/*.onnx: the standard's node tests of at most 4 KB, each also with its small inputs as constants, so
that constant folding is reached. FOLDER/http-seeds, grpc-seeds, config-seeds: requests to the server, and configurations of
its models. FOLDER/dictionary: names of operators, attributes and their values, and of the protocol, for libFuzzer.
Nothing is done when both were made of the same version of the package.
"""

import ast
import gzip
import json
import shutil
import struct
import sys
import zlib
from pathlib import Path

from onnx.backend.test import __file__ as backend

import onnx
from onnx import numpy_helper

LARGEST = 4096
TYPES = "BOOL UINT8 UINT16 UINT32 UINT64 INT8 INT16 INT32 INT64 FP16 FP32 FP64 BF16 BYTES".split()
WORDS = """inputs outputs parameters name shape datatype data id binary_data_size binary_data binary_data_output
    classification shared_memory_region shared_memory_byte_size shared_memory_offset sequence_id sequence_start sequence_end
    priority timeout triton_ /v2/models/ /versions/ /infer /v2/repository/models/ /load gzip deflate;q=0.5""".split()


# What has fields that no test writes as one text.
CONFIGS = [
    'name: "m" max_batch_size: 8 sequence_batching { direct { minimum_slot_utilization: 0.5 max_queue_delay_microseconds: 9 }'
    ' control_input [{ name: "START" control [{ kind: CONTROL_SEQUENCE_START fp32_false_true: [0, 1] }] }] state [{'
    ' input_name: "x" output_name: "y" data_type: TYPE_FP32 dims: [8] initial_state: { name: "i" zero_data: true'
    " data_type: TYPE_FP32 dims: [8] } }] }",
    "max_batch_size: 4 dynamic_batching { preferred_batch_size: [2, 4] priority_levels: 3 default_priority_level: 2"
    " priority_queue_policy { key: 1 value { timeout_action: DELAY max_queue_size: 3 } } }",
    'model_warmup [{ name: "w" batch_size: 2 inputs { key: "x" value { data_type: TYPE_FP32 dims: [8] random_data: true'
    " } } count: 2 }]",
    'input [{ name: "x" data_type: TYPE_FP32 dims: [2, 4] reshape { shape: [8] } }] output [{ name: "y" data_type:'
    ' TYPE_FP32 dims: [4] label_filename: "l" }]',
    'instance_group [{ count: 2 kind: KIND_GPU gpus: [0, 1] rate_limiter { resources [{ name: "R" count: 3 global: true }]'
    " priority: 2 } }] version_policy { specific { versions: [1, 3] } }",
    'platform: "ensemble" ensemble_scheduling { step [{ model_name: "a" model_version: -1 input_map { key: "x" value: "x" }'
    ' output_map { key: "y" value: "y" } }] }',
    'parameters { key: "latency_target_ms" value { string_value: "5" } } response_cache { enable: true }'
    ' optimization { execution_accelerators { gpu_execution_accelerator [{ name: "tensorrt" }] } }',
]


def make_dictionary(path: Path) -> None:
    words = set()
    for schema in onnx.defs.get_all_schemas_with_history():
        words.add(schema.name)
        words.update(schema.attributes)
    words.update(TYPES + WORDS)
    lines = [f'"{word}"' for word in sorted(words)]
    path.write_text("\n".join(lines) + "\n")


def with_constants(model: onnx.ModelProto, data: Path) -> onnx.ModelProto | None:
    """The same with the inputs of the first data set as initializers; None when they are large or no tensors."""
    constant = onnx.ModelProto()
    constant.CopyFrom(model)
    del constant.graph.input[:]
    for i, info in enumerate(model.graph.input):
        tensor = onnx.TensorProto()
        file = data / f"input_{i}.pb"
        if not file.exists() or not info.type.HasField("tensor_type"):
            return None
        tensor.ParseFromString(file.read_bytes())
        tensor.name = info.name
        if numpy_helper.to_array(tensor).nbytes > LARGEST:
            return None
        constant.graph.initializer.append(tensor)
    return constant


def make_models(folder: Path) -> int:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    count = 0
    for case in sorted((Path(backend).parent / "data" / "node").iterdir()):
        file = case / "model.onnx"
        if not file.exists() or file.stat().st_size > LARGEST:
            continue
        model = onnx.load(str(file))
        versions = {"": model, "_constant": with_constants(model, case / "test_data_set_0")}
        for suffix, version in versions.items():
            if version is not None and version.ByteSize() <= LARGEST:
                (folder / f"{case.name}{suffix}.onnx").write_bytes(version.SerializeToString())
                count += 1
    return count


def make_requests(folder: Path) -> None:
    """As tests/fuzz/http_request_fuzzer.cpp reads them: what it is, how long its JSON is, and then both."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    documents = [
        ({"inputs": [{"name": "x", "shape": [2, 1], "datatype": name, "data": [[1], [0]]}]}, b"") for name in TYPES
    ]
    documents.append(
        ({"inputs": [{"name": "x", "shape": [2], "datatype": "BYTES", "data": ["a", "\u00e4"]}], "id": "1"}, b"")
    )
    documents.append(({"inputs": [{"data": [1, -2, 0.5], "name": "x", "shape": [3], "datatype": "FP32"}]}, b""))
    binary = {"name": "x", "shape": [2], "datatype": "INT32", "parameters": {"binary_data_size": 8}}
    own = {
        "sequence_id": 5,
        "sequence_start": True,
        "priority": 1,
        "timeout": 9,
        "binary_data_output": True,
        "own": 0.5,
    }
    outputs = [{"name": "o", "parameters": {"binary_data": True}}, {"name": "p", "parameters": {"classification": 3}}]
    documents.append(({"inputs": [binary], "outputs": outputs, "parameters": own}, b"\1\0\0\0\2\0\0\0"))
    shared = {"shared_memory_region": "r", "shared_memory_byte_size": 4, "shared_memory_offset": 1}
    documents.append(({"inputs": [{"name": "x", "shape": [1], "datatype": "INT32", "parameters": shared}]}, b""))
    requests = []
    for document, tail in documents:
        text = json.dumps(document).encode()
        requests += [(0, len(text), text + tail), (1, 0, text)]
        requests += [(5, len(text), gzip.compress(text + tail)), (4, len(text), zlib.compress(text + tail))]
    requests += [(2 + 8 * kind, 0, b'{"x":"a","n":[1,2,3],"parameters":{"k":1}}') for kind in range(16)]
    requests += [(3 + 8 * kind, 0, b"12345678") for kind in range(16)]
    requests += [
        (6, 0, b"/v2/models/a%20b/versions/1/infer?x=1"),
        (6, 0, b"gzip;q=0.5, deflate"),
        (7, 0, b'{"a":[{}]}'),
    ]
    for i, (kind, length, body) in enumerate(requests):
        (folder / f"{i:03}").write_bytes(struct.pack("<BH", kind, length) + body)


def make_messages(folder: Path) -> None:
    """ModelInferRequests, as protobuf writes them."""
    from tritonclient.grpc import service_pb2 as messages

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    contents = {
        "BOOL": {"bool_contents": [True, False]},
        "INT8": {"int_contents": [-1, 5]},
        "INT16": {"int_contents": [-1, 5]},
        "INT32": {"int_contents": [-1, 5]},
        "INT64": {"int64_contents": [-1, 5]},
        "UINT8": {"uint_contents": [1, 5]},
        "UINT16": {"uint_contents": [1, 5]},
        "UINT32": {"uint_contents": [1, 5]},
        "UINT64": {"uint64_contents": [1, 5]},
        "FP32": {"fp32_contents": [0.5, 5]},
        "FP64": {"fp64_contents": [0.5, 5]},
        "BYTES": {"bytes_contents": [b"a", b""]},
    }
    parameters = {
        "sequence_id": messages.InferParameter(int64_param=3),
        "sequence_start": messages.InferParameter(bool_param=True),
        "priority": messages.InferParameter(uint64_param=1),
        "timeout": messages.InferParameter(int64_param=9),
        "own": messages.InferParameter(double_param=0.5),
        "text": messages.InferParameter(string_param="t"),
    }
    for name, typed in contents.items():
        for raw in (False, True):
            message = messages.ModelInferRequest(model_name="m", model_version="1", id="i", parameters=parameters)
            tensor = message.inputs.add(name="x", datatype=name, shape=[2])
            if raw:
                message.raw_input_contents.append(b"12345678")
            else:
                tensor.contents.CopyFrom(messages.InferTensorContents(**typed))
            output = message.outputs.add(name="y")
            output.parameters["classification"].int64_param = 2
            (folder / f"{name}-{raw}").write_bytes(message.SerializeToString())
    message = messages.ModelInferRequest(model_name="m")
    shared = message.inputs.add(name="x", datatype="INT8", shape=[2]).parameters
    shared["shared_memory_region"].string_param = "r"
    shared["shared_memory_byte_size"].int64_param = 2
    shared["shared_memory_offset"].int64_param = 1
    (folder / "shared").write_bytes(message.SerializeToString())


def written_configs(folder: Path) -> set[str]:
    """The texts in the tests of the server that are configurations, or parts of one."""
    from google.protobuf import text_format
    from tritonclient.grpc import model_config_pb2

    found = set()
    for file in sorted(folder.glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and ("{" in node.value or ":" in node.value)
            ):
                text = node.value.replace("%%", "%").replace("{{", "{").replace("}}", "}").replace("%s", "")
                try:
                    text_format.Parse(text, model_config_pb2.ModelConfig())
                except text_format.ParseError:
                    continue
                found.add(text)
    return found


def make_configs(folder: Path) -> None:
    """As tests/fuzz/model_config_fuzzer.cpp reads them: which form and which model, and then the text."""
    from google.protobuf import json_format, text_format
    from tritonclient.grpc import model_config_pb2

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    texts = written_configs(Path(__file__).resolve().parents[1] / "tests/server") | set(CONFIGS)
    for i, text in enumerate(sorted(texts)):
        config = text_format.Parse(text, model_config_pb2.ModelConfig())
        for kind in (0, 2, 8, 14, 30):
            (folder / f"{i:03}-{kind}").write_bytes(bytes([kind]) + text.encode())
        (folder / f"{i:03}-json").write_bytes(b"\x01" + json_format.MessageToJson(config).encode())


def main() -> None:
    home = Path(sys.argv[1])
    stamp = home / "reader-seeds" / "made"
    home.mkdir(parents=True, exist_ok=True)
    make_requests(home / "http-seeds")
    make_messages(home / "grpc-seeds")
    make_configs(home / "config-seeds")
    if stamp.exists() and stamp.read_text() == onnx.__version__:
        return
    make_dictionary(home / "dictionary")
    print(make_models(home / "reader-seeds"), "models")
    stamp.write_text(onnx.__version__)


main()
