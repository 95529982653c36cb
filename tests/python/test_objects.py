"""Texts, sequences, optionals and maps into engines and out of them."""

import asyncio
import threading

import numpy as np
import pytest
from test_module import module as camshaft

import onnx
from onnx import TensorProto, helper

FLOATS = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
TEXTS = helper.make_tensor_type_proto(TensorProto.STRING, ["n"])
ROWS = helper.make_tensor_type_proto(TensorProto.FLOAT, ["rows", 3])


def map_of(key, value=TensorProto.FLOAT):
    made = onnx.TypeProto()
    made.map_type.key_type = key
    made.map_type.value_type.tensor_type.elem_type = value
    return made


def model(inputs, outputs, *nodes):
    """Of {name: type} and (operator, inputs, outputs[, attributes])."""
    infos = [[helper.make_value_info(name, type_) for name, type_ in side.items()] for side in (inputs, outputs)]
    made = [helper.make_node(op, ins, outs, **(rest[0] if rest else {})) for op, ins, outs, *rest in nodes]
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(helper.make_graph(made, "objects", *infos), opset_imports=opsets, ir_version=10)


def same(type_):
    return model({"x": type_}, {"y": type_}, ("Identity", ["x"], ["y"]))


@pytest.fixture(scope="module")
def classes():
    """What scikit-learn's classifiers are exported as: labels, and a list of probabilities by label."""
    nodes = [
        ("ArgMax", ["x"], ["place"], {"axis": 1, "keepdims": 0}),
        (
            "LabelEncoder",
            ["place"],
            ["label"],
            {"domain": "ai.onnx.ml", "keys_int64s": [0, 1, 2], "values_strings": ["a", "b", "c"]},
        ),
        ("ZipMap", ["x"], ["by_label"], {"domain": "ai.onnx.ml", "classlabels_strings": ["a", "b", "ü"]}),
    ]
    by_label = helper.make_sequence_type_proto(map_of(TensorProto.STRING))
    return camshaft.build(model({"x": ROWS}, {"label": TEXTS, "by_label": by_label}, *nodes))


PIXELS = np.array([[0, 2, 1], [4, 3, 3]], np.float32)
EXPECTED = [{"a": 0, "b": 2, "ü": 1}, {"a": 4, "b": 3, "ü": 3}]


def test_labels_and_probabilities_of_a_classifier(classes):
    label, by_label = classes(PIXELS)
    assert label.dtype == object and label.tolist() == ["b", "a"]
    assert by_label == EXPECTED
    assert classes(PIXELS + 1)[1][0] == {"a": 1, "b": 3, "ü": 2}
    assert by_label == EXPECTED  # the caller's own


def test_they_come_from_contexts_threads_and_event_loops(classes):
    context = classes.create_context()
    results = context.run({"x": PIXELS})
    assert results["by_label"] == EXPECTED and context.output("label").tolist() == ["b", "a"]
    assert asyncio.run(context.run_async({"x": PIXELS}))["by_label"] == EXPECTED
    assert asyncio.run(classes.run_async({"x": PIXELS}))["by_label"] == EXPECTED
    found = []
    threads = [threading.Thread(target=lambda: found.append(classes.run({"x": PIXELS}))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(result["by_label"] == EXPECTED and result["label"].tolist() == ["b", "a"] for result in found)


@pytest.mark.parametrize(
    "texts",
    [
        np.array(["a", "ü", "", "with\0zero"], object),
        np.array(["a", "long enough that it is held elsewhere"]),
        np.array([b"a", b"\xff\xfe"], object),
        np.array([], object),
        ["a", b"b"],
    ],
    ids=["objects", "unicode", "bytes", "none", "list"],
)
def test_texts(texts):
    engine = camshaft.build(same(TEXTS))
    result = engine(texts)
    assert result.dtype == object and result.shape == np.shape(texts)
    expected = [t.decode("utf-8", "surrogateescape") if isinstance(t, bytes) else str(t) for t in texts]
    assert result.tolist() == expected
    assert engine(result).tolist() == expected  # also those that are not UTF-8


def test_texts_keep_their_shape():
    for shape in [(), (1,), (2, 0, 3), (2, 3)]:
        engine = camshaft.build(same(helper.make_tensor_type_proto(TensorProto.STRING, shape)), verify=False)
        texts = np.full(shape, "word", object)
        assert np.array_equal(engine(texts), texts) and engine(texts).shape == shape


def test_sequences():
    engine = camshaft.build(same(helper.make_sequence_type_proto(FLOATS)), verify=False)
    rows = [PIXELS, PIXELS[0], np.float32(3), np.zeros((0, 2), np.float32)]
    results = engine(rows)
    assert [result.shape for result in results] == [(2, 3), (3,), (), (0, 2)]
    assert all(np.array_equal(result, row) and result.dtype == np.float32 for result, row in zip(results, rows))
    assert engine([]) == []
    assert engine([1, [2.5, 3]])[1].tolist() == [2.5, 3]  # in the type that is wanted
    assert np.array_equal(engine([PIXELS.T])[0], PIXELS.T)  # which is not row-major


@pytest.mark.parametrize("key", [TensorProto.INT64, TensorProto.STRING], ids=["numbers", "texts"])
def test_maps(key):
    vocabulary = {"int64_vocabulary": [1, 2, 3]} if key == TensorProto.INT64 else {"string_vocabulary": ["a", "b", "c"]}
    engine = camshaft.build(
        model(
            {"x": map_of(key)}, {"y": ROWS}, ("DictVectorizer", ["x"], ["y"], {"domain": "ai.onnx.ml", **vocabulary})
        ),
        verify=False,
    )
    first, third = (1, 3) if key == TensorProto.INT64 else ("a", "c")
    assert engine({first: 0.5, third: 2}).tolist() == [[0.5, 0, 2]]
    assert engine({}).tolist() == [[0, 0, 0]]


def test_optionals():
    pair = helper.make_tensor_type_proto(TensorProto.FLOAT, [2])
    engine = camshaft.build(same(helper.make_optional_type_proto(pair)), verify=False)
    assert engine(None) is None
    assert engine(np.array([1, 2], np.float32)).tolist() == [1, 2]
    engine = camshaft.build(same(helper.make_optional_type_proto(helper.make_sequence_type_proto(pair))), verify=False)
    assert engine(None) is None
    assert [row.tolist() for row in engine([np.array([1, 2], np.float32)])] == [[1, 2]]


@pytest.mark.parametrize(
    "type_, value, message",
    [
        (TEXTS, np.zeros(2), "input 'x': 0.0 is no text: give str or bytes"),
        (TEXTS, ["a", None], "input 'x': None is no text"),
        (helper.make_sequence_type_proto(FLOATS), PIXELS, "input 'x': a sequence is given as a list, not as ndarray"),
        (helper.make_sequence_type_proto(FLOATS), ["a"], "input 'x', element 0: 'a' is no array of f32"),
        (helper.make_sequence_type_proto(FLOATS), [np.zeros(2, np.int64)], "input 'x'"),
        (helper.make_sequence_type_proto(TEXTS), [["a", 1]], "input 'x', element 0: 1 is no text"),
        (map_of(TensorProto.INT64), [1], "input 'x': a map is given as a dict, not as list"),
        (map_of(TensorProto.INT64), {"a": 1.0}, "input 'x', keys: .* is no array of i64"),
        (ROWS, ["a"], "input 'x': list has no __dlpack__"),
    ],
)
def test_wrong_values(type_, value, message):
    vector = ("DictVectorizer", ["x"], ["y"], {"domain": "ai.onnx.ml", "int64_vocabulary": [1, 2, 3]})
    wanted = model({"x": type_}, {"y": ROWS}, vector) if type_.HasField("map_type") else same(type_)
    engine = camshaft.build(wanted, verify=False)
    with pytest.raises((TypeError, camshaft.InvalidArgumentError), match=message):
        engine(value)


def test_builds_are_verified_on_them():
    numbers = helper.make_tensor_type_proto(TensorProto.FLOAT, ["n"])
    cast = model({"x": TEXTS}, {"y": numbers}, ("Cast", ["x"], ["y"], {"to": TensorProto.FLOAT}))
    with pytest.raises(camshaft.InvalidArgumentError, match="Give real inputs"):
        camshaft.build(cast)
    engine = camshaft.build(cast, inputs={"x": np.array(["1.5", "-2"], object)})
    assert engine.report["verification"][0]["passed"]
    assert engine(np.array(["0.25"], object)).tolist() == [0.25]
    optional = same(helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [2])))
    assert camshaft.build(optional, inputs={"x": np.array([1, 2], np.float32)}).report["verification"]


def test_results_are_those_of_onnx_runtime(classes):
    by_label = helper.make_sequence_type_proto(map_of(TensorProto.INT64))
    zipped = model(
        {"x": ROWS, "s": TEXTS},
        {"by_label": by_label, "t": TEXTS},
        ("ZipMap", ["x"], ["by_label"], {"domain": "ai.onnx.ml", "classlabels_int64s": [5, 6, 7]}),
        ("StringConcat", ["s", "s"], ["t"]),
    )
    verdict = camshaft.verify(zipped, against="onnxruntime", inputs={"x": PIXELS, "s": np.array(["a", "b"], object)})
    assert verdict["passed"], verdict
    wrong = camshaft.verify(
        zipped,
        against=lambda given: {"by_label": [{5: 0.0, 6: 0.0, 7: 0.0}] * 2, "t": given["s"]},
        inputs={"x": PIXELS, "s": np.array(["a", "b"], object)},
    )
    assert not wrong["passed"]
    assert [output["passed"] for output in wrong["outputs"]] == [False, False]
