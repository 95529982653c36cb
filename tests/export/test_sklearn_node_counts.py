"""`camshaft simplify` of scikit-learn's pipelines leaves no more nodes than onnxslim: operators of ai.onnx.ml, which the
importer takes apart, are written as they were."""

import numpy as np
import pytest
from camshaft_cli import camshaft
from exporting import checked, difference, run
from skl2onnx import to_onnx
from sklearn.datasets import load_diabetes, load_digits
from sklearn.decomposition import PCA
from sklearn.ensemble import AdaBoostClassifier, BaggingClassifier, IsolationForest, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, RobustScaler, StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC
from sklearn.tree import DecisionTreeClassifier

import onnx

OPSETS = {"": 17, "ai.onnx.ml": 3}


def digits(model, rows=None):
    x, y = load_digits(return_X_y=True)
    x = x.astype(np.float32)
    return model.fit(x[:rows], y[:rows]), x


def diabetes(model):
    x, y = load_diabetes(return_X_y=True)
    x = x.astype(np.float32)
    return model.fit(x, y), x


def logistic():
    return LogisticRegression(max_iter=200)


def trees(kind, estimator=None, **options):
    return kind(estimator, random_state=0, **options) if estimator else kind(random_state=0, **options)


#: {name: (makes the model, nodes that onnxslim 0.1.98 leaves of what skl2onnx 1.20 writes)}
MODELS = {
    "pca and logistic regression": (lambda: digits(make_pipeline(StandardScaler(), PCA(20), logistic())), 6),
    "imputer and scaler": (lambda: digits(make_pipeline(SimpleImputer(), RobustScaler(), logistic())), 5),
    "normaliser and ridge": (lambda: diabetes(make_pipeline(Normalizer(), Ridge())), 2),
    "one of many": (lambda: digits(OneVsRestClassifier(logistic())), 28),
    "forest": (lambda: digits(trees(RandomForestClassifier, n_estimators=5, max_depth=4)), 2),
    "bagging": (lambda: digits(trees(BaggingClassifier, DecisionTreeClassifier(max_depth=4), n_estimators=3)), 13),
    "boosting": (lambda: digits(trees(AdaBoostClassifier, DecisionTreeClassifier(max_depth=1), n_estimators=5)), 43),
    "isolation": (lambda: digits(trees(IsolationForest, n_estimators=5)), 126),
    "support vectors": (lambda: digits(SVC(), 300), 258),
    "probabilities of support vectors": (lambda: digits(SVC(probability=True), 300), 3),
    "support vector regression": (lambda: diabetes(SVR()), 2),
    "linear support vectors": (lambda: digits(LinearSVC(random_state=0)), 1),
    "naive bayes": (lambda: digits(GaussianNB()), 18),
    "neighbours": (lambda: digits(KNeighborsClassifier(3), 200), 48),
}


def count(graph):
    nodes = [node for node in graph.node if node.op_type != "Constant"]
    return len(nodes) + sum(
        count(attribute.g) for node in nodes for attribute in node.attribute if attribute.HasField("g")
    )


@pytest.mark.parametrize("name", MODELS)
def test_no_more_nodes_than_onnxslim_leaves(name, tmp_path):
    make, limit = MODELS[name]
    fitted, x = make()
    original, simple = tmp_path / "model.onnx", tmp_path / "simple.onnx"
    onnx.save(to_onnx(fitted, x[:1], target_opset=OPSETS), original)
    camshaft("simplify", original, "-o", simple)
    assert count(onnx.load(simple).graph) <= limit
    assert checked(simple) is None
    feed = {"X": x[:40]}
    expected, actual = run(original, feed), run(simple, feed)
    assert expected is not None and expected.keys() == actual.keys()
    for output, value in expected.items():
        assert difference(value, actual[output], 1e-4, 1e-5) is None, output


def test_operators_of_many_operands_stay_whole(tmp_path):
    """Also where a result between them is an output of the model."""
    nodes = [
        onnx.helper.make_node(
            "Scaler", ["x"], ["s"], "scale", domain="ai.onnx.ml", offset=[1.0, 2.0], scale=[3.0, 4.0]
        ),
        onnx.helper.make_node("Sum", ["s", "x", "s"], ["y"], "sum"),
        onnx.helper.make_node("Max", ["y", "x", "s"], ["z"], "max"),
    ]
    info = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes, "g", [info("x", 1, ["n", 2])], [info("z", 1, ["n", 2]), info("s", 1, ["n", 2])]
    )
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("ai.onnx.ml", 3)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / "model.onnx")
    camshaft("simplify", tmp_path / "model.onnx", "-o", tmp_path / "simple.onnx")
    written = onnx.load(tmp_path / "simple.onnx")
    assert [node.op_type for node in written.graph.node] == ["Scaler", "Sum", "Max"]
    assert [list(node.input) for node in written.graph.node] == [["x"], ["s", "x", "s"], ["y", "x", "s"]]
    x = np.random.default_rng(0).standard_normal((3, 2)).astype(np.float32)
    for name, value in run(tmp_path / "model.onnx", {"x": x}).items():
        np.testing.assert_array_equal(run(tmp_path / "simple.onnx", {"x": x})[name], value)
