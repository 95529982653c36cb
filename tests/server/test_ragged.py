"""Ragged batches: requests of different shapes in one batch, as Triton's documentation has them."""

import queue
import subprocess

import numpy as np
import pytest
import tritonclient.grpc as grpc
from python_models import write_python
from serving import BINARY, PATIENCE, serving, write_model
from tritonclient.utils import InferenceServerException

from onnx import TensorProto, helper

BATCHING = "dynamic_batching { preferred_batch_size: [4] max_queue_delay_microseconds: 20000000 }\n"
SIZES = (2, 4, 1, 3)


def batch_input(kind, target, datatype="FP32", source="RAGGED"):
    return f'{{ kind: {kind} target_name: "{target}" data_type: TYPE_{datatype} source_input: "{source}" }}'


def config_of(dims, inputs, outputs, more=""):
    return (
        f'max_batch_size: 8\ninput [{{ name: "RAGGED" data_type: TYPE_FP32 dims: {dims} allow_ragged_batch: true }}]\n'
        f"batch_input [{', '.join(inputs)}]\n{outputs}{more}"
    )


def to_every_request(source, target):
    """Nodes that give each request the whole row `source`: what a batch is made of can then be read by clients."""
    return [
        helper.make_node("Unsqueeze", [source, "zero"], [f"{source}_row"]),
        helper.make_node("Add", [f"{source}_row", "column"], [target]),
    ]


COLUMN = [
    helper.make_node("Mul", ["COUNT", "none"], ["nothing"]),
    helper.make_node("Unsqueeze", ["nothing", "one"], ["column"]),
]
CONSTANTS = [
    helper.make_tensor("zero", TensorProto.INT64, [1], [0]),
    helper.make_tensor("one", TensorProto.INT64, [1], [1]),
    helper.make_tensor("none", TensorProto.FLOAT, [], [0.0]),
]


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ragged")
    rows = {"COUNT": "b", "ENDS": "b", "BOUNDS": "e", "LONGEST": "m", "RAGGED": "n"}
    write_model(
        folder,
        "counts",
        COLUMN + [node for name in rows for node in to_every_request(name, f"{name}_OUT")],
        [(name, "FP32", [size]) for name, size in rows.items()],
        [(f"{name}_OUT", "FP32", ["b", size]) for name, size in rows.items()],
        config_of(
            "[-1]",
            [
                batch_input("BATCH_ELEMENT_COUNT", "COUNT"),
                batch_input("BATCH_ACCUMULATED_ELEMENT_COUNT", "ENDS"),
                batch_input("BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO", "BOUNDS"),
                batch_input("BATCH_MAX_ELEMENT_COUNT_AS_SHAPE", "LONGEST"),
            ],
            "",
            BATCHING,
        ),
        constants=CONSTANTS,
    )
    write_model(
        folder,
        "shapes",
        [*COLUMN, *to_every_request("FLAT", "FLAT_OUT"), helper.make_node("Identity", ["SHAPES"], ["SHAPES_OUT"])],
        [("COUNT", "FP32", ["b"]), ("FLAT", "FP32", ["f"]), ("SHAPES", "FP32", ["i", 2]), ("RAGGED", "FP32", ["n"])],
        [("FLAT_OUT", "FP32", ["b", "f"]), ("SHAPES_OUT", "FP32", ["i", 2])],
        config_of(
            "[-1, -1]",
            [
                batch_input("BATCH_ELEMENT_COUNT", "COUNT"),
                batch_input("BATCH_ITEM_SHAPE_FLATTEN", "FLAT"),
                batch_input("BATCH_ITEM_SHAPE", "SHAPES"),
            ],
            "",
            BATCHING,
        ),
        constants=CONSTANTS,
    )
    write_model(
        folder,
        "items",
        [helper.make_node("Identity", ["SHAPES"], ["SHAPES_OUT"]), helper.make_node("Identity", ["RAGGED"], ["SAME"])],
        [("SHAPES", "INT32", ["i", 2]), ("RAGGED", "FP32", ["n"])],
        [("SHAPES_OUT", "INT32", ["i", 2]), ("SAME", "FP32", ["n"])],
        config_of(
            "[-1, -1]",
            [batch_input("BATCH_ITEM_SHAPE", "SHAPES", "INT32")],
            'output [{ name: "SAME" data_type: TYPE_FP32 dims: [-1, -1] },'
            '{ name: "SHAPES_OUT" data_type: TYPE_INT32 dims: [2] }]\n'
            'batch_output [{ target_name: "SAME" kind: BATCH_SCATTER_WITH_INPUT_SHAPE source_input: "RAGGED" }]\n',
            BATCHING,
        ),
    )
    # Each request's mean, of the sums up to its bounds: a model that needs no padding.
    write_model(
        folder,
        "means",
        [
            helper.make_node("Identity", ["RAGGED"], ["SAME"]),
            helper.make_node("CumSum", ["RAGGED", "axis"], ["sums"]),
            helper.make_node("Concat", ["start", "sums"], ["sums0"], axis=0),
            helper.make_node("Gather", ["sums0", "BOUNDS"], ["at"]),
            helper.make_node("Slice", ["at", "one", "end"], ["upper"]),
            helper.make_node("Slice", ["at", "zero", "last"], ["lower"]),
            helper.make_node("Sub", ["upper", "lower"], ["total"]),
            helper.make_node("Cast", ["LENGTHS"], ["lengths"], to=TensorProto.FLOAT),
            helper.make_node("Div", ["total", "lengths"], ["mean"]),
            helper.make_node("Unsqueeze", ["mean", "one"], ["MEAN"]),
        ],
        [("RAGGED", "FP32", ["n"]), ("BOUNDS", "INT64", ["e"]), ("LENGTHS", "INT32", ["b"])],
        [("SAME", "FP32", ["n"]), ("MEAN", "FP32", ["b", 1])],
        config_of(
            "[-1]",
            [
                batch_input("BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO", "BOUNDS", "INT64"),
                batch_input("BATCH_ELEMENT_COUNT", "LENGTHS", "INT32"),
            ],
            'output [{ name: "SAME" data_type: TYPE_FP32 dims: [-1] }, { name: "MEAN" data_type: TYPE_FP32 dims: [1] }]\n'
            'batch_output [{ target_name: "SAME" kind: BATCH_SCATTER_WITH_INPUT_SHAPE source_input: "RAGGED" }]\n',
            BATCHING,
        ),
        constants=[
            helper.make_tensor("axis", TensorProto.INT64, [], [0]),
            helper.make_tensor("start", TensorProto.FLOAT, [1], [0.0]),
            helper.make_tensor("zero", TensorProto.INT64, [1], [0]),
            helper.make_tensor("one", TensorProto.INT64, [1], [1]),
            helper.make_tensor("last", TensorProto.INT64, [1], [-1]),
            helper.make_tensor("end", TensorProto.INT64, [1], [1 << 40]),
        ],
    )
    write_python(
        folder,
        "together",
        """
class TritonPythonModel:
    def execute(self, requests):
        count = np.full((1, 1), len(requests), np.int32)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("COUNT", count)]) for _ in requests]
""",
        'max_batch_size: 8\ninput [{ name: "RAGGED" data_type: TYPE_FP32 dims: [-1] allow_ragged_batch: true }]\n'
        'output [{ name: "COUNT" data_type: TYPE_INT32 dims: [1] }]\n' + BATCHING,
    )
    return folder


@pytest.fixture(scope="module")
def server(repository, interpreter):
    with serving(repository) as running:
        yield running


def ask_in_order(server, model, arrays):
    """Responses of requests that come one after another, and are a batch."""
    answers = queue.SimpleQueue()
    with grpc.InferenceServerClient(server.grpc) as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        for number, array in enumerate(arrays):
            x = grpc.InferInput("RAGGED", array.shape, "FP32")
            x.set_data_from_numpy(array)
            client.async_stream_infer(model, [x], request_id=str(number))
        found = {}
        for _ in arrays:
            result, error = answers.get(timeout=PATIENCE)
            assert error is None, error
            found[int(result.get_response().id)] = result
        client.stop_stream()
    return [found[number] for number in range(len(arrays))]


def rows(sizes=SIZES):
    return [np.full((1, size), size, np.float32) for size in sizes]


def test_counts_tell_where_requests_begin_and_end(server):
    for answer in ask_in_order(server, "counts", rows()):
        assert answer.as_numpy("RAGGED_OUT").tolist() == [[2, 2, 4, 4, 4, 4, 1, 3, 3, 3]]
        assert answer.as_numpy("COUNT_OUT").tolist() == [[2, 4, 1, 3]]
        assert answer.as_numpy("ENDS_OUT").tolist() == [[2, 6, 7, 10]]
        assert answer.as_numpy("BOUNDS_OUT").tolist() == [[0, 2, 6, 7, 10]]
        assert answer.as_numpy("LONGEST_OUT").shape == (1, 4)


def test_a_request_may_be_several_elements_of_a_batch(server):
    shapes = [(2, 1, 2), (1, 1, 2), (1, 2, 2)]
    arrays = [np.full(shape, number, np.float32) for number, shape in enumerate(shapes)]
    answers = ask_in_order(server, "items", arrays)
    for answer, array in zip(answers, arrays, strict=True):
        assert answer.as_numpy("SHAPES_OUT").tolist() == [list(array.shape[1:])] * array.shape[0]
        assert answer.as_numpy("SAME").shape == array.shape and (answer.as_numpy("SAME") == array).all()


def test_shapes_of_items(server):
    shapes = [(1, 4, 1), (1, 1, 2), (1, 1, 2), (1, 2, 2)]
    answers = ask_in_order(server, "shapes", [np.zeros(shape, np.float32) for shape in shapes])
    for answer, shape in zip(answers, shapes, strict=True):
        assert answer.as_numpy("FLAT_OUT").tolist() == [[4, 1, 1, 2, 1, 2, 2, 2]]
        assert answer.as_numpy("SHAPES_OUT").tolist() == [list(shape[1:])]


def test_outputs_are_cut_by_the_shapes_of_their_inputs(server):
    random = np.random.default_rng(1)
    arrays = [random.standard_normal((1, size)).astype(np.float32) for size in SIZES]
    answers = ask_in_order(server, "means", arrays)
    for answer, array in zip(answers, arrays, strict=True):
        assert answer.as_numpy("SAME").shape == array.shape and (answer.as_numpy("SAME") == array).all()
        assert np.allclose(answer.as_numpy("MEAN"), array.mean(1, keepdims=True), atol=1e-5)
    with grpc.InferenceServerClient(server.grpc) as client:
        stats = client.get_inference_statistics("means").model_stats[0]
        assert [entry.batch_size for entry in stats.batch_stats] == [4]


def test_requests_to_python_models_share_a_call(server):
    assert [answer.as_numpy("COUNT").tolist() for answer in ask_in_order(server, "together", rows())] == [[[4]]] * 4


def test_a_batch_holds_what_the_engine_has_room_for(repository, tmp_path):
    """With a profile of seven elements four requests of 2, 4, 1 and 3 are two batches."""
    command = BINARY.parents[1] / "tools/camshaft"
    if not command.exists():
        pytest.skip("the command is not built")
    (tmp_path / "means/1").mkdir(parents=True)
    config = (repository / "means/config.pbtxt").read_text()
    (tmp_path / "means/config.pbtxt").write_text(
        config.replace("max_batch_size: 8", "max_batch_size: 4").replace("20000000", "1000000")
    )
    profile = [f"--{which}-shapes=RAGGED:{n},BOUNDS:{b + 1},LENGTHS:{b}" for which, n, b in
               (("min", 1, 1), ("opt", 7, 2), ("max", 7, 4))]  # fmt: skip
    source, target = repository / "means/1/model.onnx", tmp_path / "means/1/model.plan"
    subprocess.run([command, "build", source, "-o", target, *profile], check=True, capture_output=True)
    with serving(tmp_path) as server:
        answers = ask_in_order(server, "means", rows())
        assert [float(answer.as_numpy("MEAN")[0, 0]) for answer in answers] == list(SIZES)
        with grpc.InferenceServerClient(server.grpc) as client:
            stats = client.get_inference_statistics("means").model_stats[0]
            assert {entry.batch_size: entry.compute_infer.count for entry in stats.batch_stats} == {1: 1, 3: 1}


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ('batch_input [{ target_name: "I" data_type: TYPE_FP32 }]', "expects 1 source input, got 0"),
        (f"batch_input [{batch_input('BATCH_ELEMENT_COUNT', 'I', source='OTHER')}]", "unknown source input name 'OTHER'"),
        (f"batch_input [{batch_input('BATCH_ELEMENT_COUNT', 'NONE')}]", "the model has no input 'NONE'"),
        (f"batch_input [{batch_input('BATCH_ELEMENT_COUNT', 'I', 'INT32')}]", "the model has data-type TYPE_FP32"),
        (f"batch_input [{batch_input('BATCH_ITEM_SHAPE', 'I')}]", "has 2 axes, the model's input has the shape [-1]"),
        ('batch_output [{ target_name: "NONE" source_input: "RAGGED" }]', "unknown batch output name 'NONE'"),
        ("batch_input [{ kind: 17 target_name: 'I' data_type: TYPE_FP32 source_input: 'RAGGED' }]", "unknown kind 17"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_configuration_is_said(tmp_path, batch, message):
    nodes = [helper.make_node("Identity", ["I"], ["OUT"])]
    config = config_of("[-1]", [], batch + "\n")
    if "'I'" not in batch and '"I"' not in batch:
        config += f"batch_input [{batch_input('BATCH_ELEMENT_COUNT', 'I')}]\n"
    write_model(
        tmp_path, "m", nodes, [("RAGGED", "FP32", ["n"]), ("I", "FP32", ["b"])], [("OUT", "FP32", ["b"])], config
    )
    with serving(tmp_path, "--exit-on-error=false", "--model-control-mode=explicit") as server:
        status, _, body = server.request("POST", "/v2/repository/models/m/load")
        assert status == 400 and message in body.decode().replace('\\"', '"'), body


def test_a_model_of_another_rank_is_named(tmp_path):
    nodes = [helper.make_node("Identity", ["RAGGED"], ["OUT"])]
    shape = [("RAGGED", "FP32", ["b", "n"])]
    write_model(tmp_path, "m", nodes, shape, [("OUT", "FP32", ["b", "n"])], config_of("[-1]", [], ""))
    with serving(tmp_path, "--model-control-mode=explicit") as server:
        status, _, body = server.request("POST", "/v2/repository/models/m/load")
        assert status == 400 and "it must be one row of any length" in body.decode(), body


def test_single_requests_keep_their_own_errors(server):
    x = grpc.InferInput("RAGGED", (1, 2), "INT32")
    x.set_data_from_numpy(np.zeros((1, 2), np.int32))
    with grpc.InferenceServerClient(server.grpc) as client, pytest.raises(InferenceServerException, match="data-type"):
        client.infer("means", [x])
