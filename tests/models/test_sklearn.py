"""scikit-learn's models through skl2onnx: built, written, loaded and run, then compared with scikit-learn and ONNX Runtime.

Classifiers are exported with ZipMap, which is what skl2onnx does unless it is told otherwise, and without it. Labels must
be equal; scores may differ by 1e-4 of their scale from ONNX Runtime's and, because scikit-learn computes in
doubles, by 1e-3 from its own.
"""

import warnings

import numpy as np
import onnxruntime
import pytest
from camshaft_cli import camshaft, run, worst_error
from skl2onnx import to_onnx
from skl2onnx.common.data_types import FloatTensorType, StringTensorType
from sklearn.base import is_classifier
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer
from sklearn.datasets import make_classification, make_regression
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    AdaBoostClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.mixture import GaussianMixture
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, Normalizer, OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC, OneClassSVM

ROWS = 40


def numbers(classes):
    x, y = make_classification(200, 8, n_informative=5, n_classes=classes, random_state=classes)
    return x.astype(np.float32), y


def targets():
    x, y = make_regression(200, 8, noise=1, random_state=0)
    return x.astype(np.float32), (y / np.abs(y).max()).astype(np.float32)


def exported(model, x, types=None, zipmap=False):
    """The model as ONNX. `zipmap`: True for scores as a sequence of maps, False for one tensor, "columns" for one each."""
    has_zipmap = is_classifier(model) and not isinstance(model, LinearSVC)
    options = {id(model): {"zipmap": zipmap}} if has_zipmap and zipmap is not True else None
    return to_onnx(model, None if types else x[:1], options=options, initial_types=types)


def maps(got, name):
    """A sequence of maps as the archive of `camshaft run` has it."""
    out = []
    while f"{name}/{len(out)}/keys" in got:
        keys, values = (got[f"{name}/{len(out)}/{part}"] for part in ("keys", "values"))
        assert keys.shape == values.shape
        out.append(dict(zip(keys.tolist(), values, strict=True)))
    return out


def table(rows):
    """The values of maps that have the same keys, a column each, and the keys."""
    keys = sorted(rows[0])
    assert all(sorted(row) == keys for row in rows)
    return np.array([[row[key] for key in keys] for row in rows], np.float32), keys


def compare(folder, proto, feed, expected, with_onnxruntime=True):
    """`expected` is scikit-learn's result for the first outputs, in order. Maps are compared as tables."""
    path = folder / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    camshaft("build", path, "-o", folder / "model.engine")
    got = run(folder / "model.engine", feed)
    names = [output.name for output in proto.graph.output]
    keys = {}
    for output in proto.graph.output:
        if output.type.HasField("sequence_type"):
            got[output.name], keys[output.name] = table(maps(got, output.name))
    if with_onnxruntime:
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        objects = {name: array.astype(object) if array.dtype.kind == "U" else array for name, array in feed.items()}
        for name, want in zip(names, session.run(names, objects), strict=True):
            if name in keys:
                want, wanted_keys = table(want)
                assert keys[name] == wanted_keys, name
            if want.dtype == object:
                assert list(got[name]) == list(want), name
            else:
                assert worst_error(got[name], want) <= 1e-4, name
    for name, want in zip(names, expected, strict=False):
        if want.dtype.kind in "iUO":
            assert list(got[name].ravel()) == list(want.ravel()), name
        else:
            assert worst_error(got[name].ravel().astype(np.float64), want.ravel().astype(np.float64)) <= 1e-3, name


CLASSIFIERS = {
    "random forest": lambda: RandomForestClassifier(10, random_state=0),
    "gradient boosting": lambda: GradientBoostingClassifier(n_estimators=8, random_state=0),
    "svc": lambda: SVC(),
    "svc with probabilities": lambda: SVC(probability=True, random_state=0),
    "polynomial svc": lambda: SVC(kernel="poly"),
    "linear svc": lambda: LinearSVC(),
    "scaled logistic regression": lambda: make_pipeline(StandardScaler(), LogisticRegression()),
    "normalised logistic regression": lambda: make_pipeline(Normalizer(), PCA(3), LogisticRegression()),
    "naive bayes": lambda: GaussianNB(),
    "perceptron": lambda: MLPClassifier((10,), max_iter=50, random_state=0),
    "neighbours": lambda: KNeighborsClassifier(3),
    "boosted stumps": lambda: AdaBoostClassifier(n_estimators=5, random_state=0),
}


@pytest.mark.parametrize("zipmap", [False, True], ids=["tensor", "maps"])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_classifier(tmp_path, kind, classes, zipmap):
    # Each label type with each form of the scores, for two classes or for three.
    names = ["no", "yes", "maybe"] if (classes == 3) == zipmap else None
    x, y = numbers(classes)
    y = y if names is None else np.array(names)[y]
    model = CLASSIFIERS[kind]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of training that has not converged, which nothing here depends on
        model.fit(x, y)
        proto = exported(model, x, zipmap=zipmap)
    expected = [model.predict(x[:ROWS])]
    # libsvm's predict and its probabilities may disagree, and its probabilities are of other vectors than its votes.
    if hasattr(model, "predict_proba") and not isinstance(model, SVC):
        expected.append(model.predict_proba(x[:ROWS]))
    compare(tmp_path, proto, {proto.graph.input[0].name: x[:ROWS]}, expected)


@pytest.mark.parametrize("zipmap", [True, "columns"])
@pytest.mark.parametrize("rows", [0, 1])
def test_scores_of_few_rows(tmp_path, rows, zipmap):
    x, y = numbers(3)
    proto = exported(LogisticRegression().fit(x, y), x, zipmap=zipmap)
    path = tmp_path / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    feed = {proto.graph.input[0].name: x[:rows]}
    got = run(path, feed)
    label, *scores = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, feed)
    names = [output.name for output in proto.graph.output]
    assert list(got[names[0]]) == list(label)
    if zipmap == "columns":
        assert all(worst_error(got[name], want) <= 1e-4 for name, want in zip(names[1:], scores, strict=True))
    else:
        assert maps(got, names[1]) == [{key: pytest.approx(p, abs=1e-5) for key, p in row.items()} for row in scores[0]]


REGRESSORS = {
    "random forest": lambda: RandomForestRegressor(10, random_state=0),
    "gradient boosting": lambda: GradientBoostingRegressor(n_estimators=8, random_state=0),
    "svr": lambda: SVR(),
    "linear": lambda: make_pipeline(MinMaxScaler(), LinearRegression()),
    "neighbours": lambda: KNeighborsRegressor(4),
    "weighted neighbours": lambda: KNeighborsRegressor(3, weights="distance"),
}


@pytest.mark.parametrize("kind", REGRESSORS)
def test_regressor(tmp_path, kind):
    x, y = targets()
    model = REGRESSORS[kind]().fit(x, y)
    proto = exported(model, x)
    # What skl2onnx writes of weights by distance computes something else than scikit-learn, in ONNX Runtime as well.
    expected = [] if kind == "weighted neighbours" else [model.predict(x[:ROWS])]
    compare(tmp_path, proto, {proto.graph.input[0].name: x[:ROWS]}, expected)


def test_missing_values(tmp_path):
    x, y = targets()
    x[::5, 2] = np.nan
    model = make_pipeline(SimpleImputer(), LinearRegression()).fit(x, y)
    proto = exported(model, x)
    compare(tmp_path, proto, {proto.graph.input[0].name: x[:ROWS]}, [model.predict(x[:ROWS])])


@pytest.mark.parametrize(
    "model",
    [KMeans(3, n_init=1, random_state=0), GaussianMixture(2, reg_covar=0.01, random_state=0), OneClassSVM()],
    ids=str,
)
def test_unsupervised(tmp_path, model):
    x, _ = numbers(3)
    model.fit(x)
    proto = exported(model, x)
    compare(tmp_path, proto, {proto.graph.input[0].name: x[:ROWS]}, [model.predict(x[:ROWS])])


@pytest.mark.parametrize(
    "encoder", [OneHotEncoder(handle_unknown="ignore"), OrdinalEncoder()], ids=["one-hot", "ordinal"]
)
def test_columns_of_numbers_and_strings(tmp_path, encoder):
    x, y = numbers(3)
    colours = np.array(["red", "green", "blau"])[np.random.default_rng(1).integers(0, 3, (len(x), 2))]
    table = np.concatenate([x[:, :3].astype(object), colours.astype(object)], axis=1)
    model = make_pipeline(
        ColumnTransformer([("numbers", StandardScaler(), [0, 1, 2]), ("words", encoder, [3, 4])]), LogisticRegression()
    ).fit(table, y)
    types = [("numbers", FloatTensorType([None, 3])), ("words", StringTensorType([None, 2]))]
    proto = exported(model, None, types)
    feed = {"numbers": x[:ROWS, :3], "words": colours[:ROWS]}
    compare(tmp_path, proto, feed, [model.predict(table[:ROWS]), model.predict_proba(table[:ROWS])])


@pytest.mark.parametrize(
    "features",
    [CountVectorizer(), CountVectorizer(ngram_range=(1, 2)), TfidfVectorizer()],
    ids=["words", "pairs", "tf-idf"],
)
def test_texts(tmp_path, features):
    rng = np.random.default_rng(0)
    words = np.array("the an Cat dog runs eats 42 fast slow house Tree sleeps".split())
    texts = np.array([" ".join(rng.choice(words, 6)) for _ in range(150)])
    likes_cats = np.array([int("Cat" in text) for text in texts])
    model = make_pipeline(features, LogisticRegression()).fit(texts, likes_cats)
    proto = exported(model, None, [("texts", StringTensorType([None]))])
    expected = [model.predict(texts[:ROWS]), model.predict_proba(texts[:ROWS])]
    # ONNX Runtime lowers case only where the system has the locale en_US.UTF-8.
    compare(tmp_path, proto, {"texts": texts[:ROWS]}, expected, with_onnxruntime=False)
