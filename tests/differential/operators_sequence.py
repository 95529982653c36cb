"""How to use sequences, optionals, strings and the operators of ai.onnx.ml. See table.py."""

import numpy as np
from graph_builder import ALL, Rejected
from table import operator

from onnx import helper

ML = "ai.onnx.ml"


class Chain:
    """Nodes between which values are not tensors: they are run together."""

    def __init__(self, b):
        self.b, self.nodes, self.inputs = b, [], []

    def node(self, op, inputs, **attributes):
        self.inputs += [v for v in inputs if not isinstance(v, str)]
        name = self.b.name()
        names = [v if isinstance(v, str) else v.name for v in inputs]
        attributes = {k: v for k, v in attributes.items() if v is not None}
        self.nodes.append(helper.make_node(op, names, [name], name=self.b.name("/node/"), **attributes))
        return name

    def end(self, *outputs):
        return self.b.append(self.nodes, self.inputs, list(outputs), exact=True)


def scalar(b, n):
    return b.constant(np.array(n, np.int64))


@operator("SequenceConstruct", "SequenceAt", "SequenceInsert", "SequenceErase", "SequenceLength", "SequenceEmpty",
          "ConcatFromSequence")  # fmt: skip
def sequence(b, op):
    x = b.value(ALL, ranks=(1, 2, 3), special=True)
    parts = [x] + [b.fresh(x.dtype, [d if d is not None else 2 for d in x.dims]) for _ in range(b.number(1, 2))]
    chain = Chain(b)
    items = chain.node("SequenceConstruct", parts)
    count = len(parts)
    if op == "SequenceEmpty" and x.dtype == "f32":
        items, count = chain.node("SequenceInsert", [chain.node("SequenceEmpty", []), x]), 1
    if op == "SequenceInsert":
        extra = [] if b.chance(0.5) else [scalar(b, b.number(-count, count))]
        items, count = chain.node("SequenceInsert", [items, b.pick(parts), *extra]), count + 1
    if op == "SequenceErase":
        extra = [] if b.chance(0.5) else [scalar(b, b.number(-count, count - 1))]
        items, count = chain.node("SequenceErase", [items, *extra]), count - 1
    if op == "SequenceLength":
        chain.end(chain.node("SequenceLength", [items]))
    elif op == "ConcatFromSequence" and all(p.shape == x.shape for p in parts):
        new = b.chance(0.5)
        axis = b.number(-x.rank, x.rank - 1)
        chain.end(chain.node("ConcatFromSequence", [items], axis=axis, new_axis=1 if new else None))
    else:
        chain.end(chain.node("SequenceAt", [items, scalar(b, b.number(-count, count - 1))]))


@operator("SplitToSequence")
def split_to_sequence(b, op):
    x = b.value(("f32", "i64", "f64"), ranks=(1, 2, 3), where=lambda v: not v.is_empty())
    axis = b.number(-x.rank, x.rank - 1)
    size = x.min_size(axis)
    chain = Chain(b)
    keep = None
    if b.chance(0.4):
        inputs, keep, count = [x], b.pick((None, 0, 1)), size
    elif b.chance(0.5) or not isinstance(x.dims[axis], int):
        step = b.number(1, size)
        inputs, count = [x, scalar(b, step)], -(-size // step)
    else:
        cut = b.number(1, size)
        inputs, count = [x, b.ints([cut, size - cut])], 2
    items = chain.node(op, inputs, axis=axis, keepdims=keep)
    if b.chance(0.5):
        chain.end(chain.node("SequenceAt", [items, scalar(b, b.number(-count, count - 1))]))
    else:
        chain.end(chain.node("SequenceLength", [items]))


@operator("Optional", "OptionalGetElement", "OptionalHasElement")
def optional(b, op):
    x = b.value(("f32", "i64"), ranks=(1, 2))
    chain = Chain(b)
    wrapped = chain.node("Optional", [x])
    chain.end(chain.node("OptionalHasElement" if op == "OptionalHasElement" else "OptionalGetElement", [wrapped]))


@operator("StringConcat")
def string_concat(b, op):
    x = b.value(("string",))
    b.emit(op, [x, b.partner(x)], exact=True)


@operator("StringSplit")
def string_split(b, op):
    x = b.value(("string",), ranks=(0, 1, 2))
    b.emit(op, [x], outputs=2, exact=True, delimiter=b.pick((None, " ", "-", "l")), maxsplit=b.pick((None, 1)))


@operator("RegexFullMatch")
def regex(b, op):
    pattern = b.pick((r"[a-z]+", r"-?[0-9.]+", r".*", r"(hello|a).*", r"[A-Z]\w+", r"\d{2}"))
    b.emit(op, [b.value(("string",))], exact=True, pattern=pattern)


@operator("StringNormalizer")
def string_normalizer(b, op):
    x = b.value(("string",), ranks=(1,), where=lambda v: v.shape[0] > 0)
    b.emit(op, [x], exact=True, case_change_action=b.pick((None, "LOWER", "UPPER", "NONE")),
           is_case_sensitive=b.pick((None, 0, 1)), stopwords=b.pick((None, ["a"], ["abc", "zebra"])))  # fmt: skip


@operator("TfIdfVectorizer")
def tf_idf(b, op):
    x = b.value(("i64", "i32", "string"), ranks=(1, 2), where=lambda v: not v.is_empty())
    pool = {"pool_strings": ["a", "abc", "42", "a", "abc", "b", "a"]}
    if x.dtype != "string":
        pool = {"pool_int64s": [1, 2, 3, 1, 2, 2, 3]}
    b.emit(op, [x], mode=b.pick(("TF", "IDF", "TFIDF")), min_gram_length=1, max_gram_length=2,
           max_skip_count=b.number(0, 2), ngram_counts=[0, 3], ngram_indexes=[0, 1, 2, 3, 4],
           weights=b.pick((None, [1.0, 2.0, 0.5, 3.0, 1.5])), **pool)  # fmt: skip


def features(b, dtypes=("f32", "f32", "f64", "i64", "i32"), width=None):
    return b.value(dtypes, ranks=(2,), where=lambda v: isinstance(v.dims[1], int) and v.dims[1] > 0
                   and (width is None or v.dims[1] == width) and not v.is_empty() and v.within(-1e3, 1e3),
                   dims=lambda: [b.dim(), width or b.number(1, 6)])  # fmt: skip


def floats(b, count, low=-2, high=2):
    return [float(np.float32(n)) for n in b.rng.uniform(low, high, count)]


@operator("Scaler", domain=ML)
def scaler(b, op):
    x = features(b)
    count = b.pick((1, x.dims[1]))
    b.emit(op, [x], domain=ML, scale=floats(b, count), offset=floats(b, count))


@operator("Normalizer", domain=ML)
def normalizer(b, op):
    x = features(b)
    if any(np.abs(a).max(1).min() < 0.1 or a.max(1).min() < 0.1 for a in x.arrays):
        raise Rejected("norms near zero")
    b.emit(op, [x], domain=ML, norm=b.pick(("MAX", "L1", "L2")))


@operator("Imputer", domain=ML)
def imputer(b, op):
    x = features(b, ("f32",))
    b.emit(op, [x], domain=ML, exact=True, imputed_value_floats=floats(b, x.dims[1]), replaced_value_float=0.0)


@operator("Binarizer", domain=ML)
def binarizer(b, op):
    x = b.value(("f32",), ranks=(1, 2), exact=True)
    b.emit(op, [x], domain=ML, exact=True, threshold=b.pick((None, 0.55)))


@operator("LabelEncoder", domain=ML)
def label_encoder(b, op):
    x = b.value(("string", "i64"), ranks=(1, 2))
    keys = {"keys_strings": ["a", "abc", "42"]} if x.dtype == "string" else {"keys_int64s": [1, 2, 3]}
    values = b.pick(({"values_int64s": [7, 8, 9]}, {"values_strings": ["x", "y", "z"]},
                     {"values_floats": [0.5, 1.5, 2.5]}))  # fmt: skip
    b.emit(op, [x], domain=ML, exact=True, **keys, **values)


@operator("OneHotEncoder", domain=ML)
def one_hot_encoder(b, op):
    x = b.value(("string", "i64"), ranks=(1, 2))
    categories = {"cats_strings": ["a", "abc", "42"]} if x.dtype == "string" else {"cats_int64s": [0, 1, 2, -3]}
    b.emit(op, [x], domain=ML, exact=True, **categories)


@operator("ArrayFeatureExtractor", domain=ML)
def array_feature_extractor(b, op):
    x = b.value(("f32", "i64", "string"), ranks=(2, 3), where=lambda v: not v.is_empty())
    picks = b.fresh("i64", [1, b.number(1, 4)], 0, x.min_size(-1) - 1, constant=1)
    b.emit(op, [x, picks], domain=ML, exact=True)


POST = (None, "NONE", "SOFTMAX", "LOGISTIC")


def labels(b, count):
    return {"classlabels_ints": list(range(count))} if b.chance(0.5) else {
        "classlabels_strings": [f"c{i}" for i in range(count)]}  # fmt: skip


@operator("LinearRegressor", domain=ML)
def linear_regressor(b, op):
    x = features(b, ("f32",))
    targets = b.number(1, 3)
    b.emit(op, [x], domain=ML, coefficients=floats(b, targets * x.dims[1]), intercepts=floats(b, targets),
           targets=targets, post_transform=b.pick((None, "NONE")))  # fmt: skip


@operator("LinearClassifier", domain=ML)
def linear_classifier(b, op):
    x = features(b, ("f32", "f32", "f64", "i64"))
    classes = b.number(2, 4)
    _, scores = b.emit(op, [x], outputs=2, domain=ML, coefficients=floats(b, classes * x.dims[1]),
                       intercepts=floats(b, classes), post_transform=b.pick(POST), **labels(b, classes))  # fmt: skip
    near_ties(scores)


def near_ties(scores):
    for a in scores.arrays:
        order = np.sort(a, 1)
        if a.shape[1] > 1 and a.size and (order[:, -1] - order[:, -2]).min() < 1e-2:
            raise Rejected("near a jump")


@operator("SVMRegressor", domain=ML)
def svm_regressor(b, op):
    x = features(b, ("f32",))
    vectors = b.number(1, 4)
    b.emit(op, [x], domain=ML, kernel_type=b.pick(("LINEAR", "RBF", "POLY", "SIGMOID")), kernel_params=[0.25, 0.5, 2.0],
           support_vectors=floats(b, vectors * x.dims[1]), coefficients=floats(b, vectors), n_supports=vectors,
           rho=floats(b, 1))  # fmt: skip


@operator("SVMClassifier", domain=ML)
def svm_classifier(b, op):
    x = features(b, ("f32",))
    classes = b.number(2, 4)
    counts = [b.number(1, 3) for _ in range(classes)]
    pairs, vectors = classes * (classes - 1) // 2, sum(counts)
    labels, scores = b.emit(
        op, [x], outputs=2, domain=ML, kernel_type=b.pick(("LINEAR", "RBF", "POLY", "SIGMOID")),
        kernel_params=[0.25, 0.5, 2.0], support_vectors=floats(b, vectors * x.dims[1]),
        coefficients=floats(b, vectors * (classes - 1)), vectors_per_class=counts, rho=floats(b, pairs),
        classlabels_ints=list(range(classes)))  # fmt: skip
    b.values.remove(labels)  # votes that are nearly even fall either way
    b.hide(scores)


def random_tree(b, width, depth, targets):
    """Columns of a tree's nodes: (mode, feature, value, true child, false child), and its leaves' (node, target, weight)."""
    nodes, leaves = [], []

    def grow(level):
        at = len(nodes)
        nodes.append(None)
        if level == depth or b.chance(0.2):
            nodes[at] = ("LEAF", 0, 0.0, 0, 0)
            leaves.append((at, b.number(0, targets - 1), *floats(b, 1)))
            return at
        mode = b.pick(("BRANCH_LEQ", "BRANCH_LEQ", "BRANCH_LT", "BRANCH_GT", "BRANCH_GTE"))
        feature, value = b.number(0, width - 1), b.number(-8, 8) / 8
        yes, no = grow(level + 1), grow(level + 1)
        nodes[at] = (mode, feature, value, yes, no)
        return at

    grow(0)
    return nodes, leaves


@operator("TreeEnsembleRegressor", "TreeEnsembleClassifier", domain=ML)
def tree_ensemble(b, op):
    x = b.value(("f32", "f32", "f64", "i64"), ranks=(2,), exact=True,
                where=lambda v: isinstance(v.dims[1], int) and v.dims[1] > 0 and not v.is_empty()
                and v.within(-1e3, 1e3))  # fmt: skip
    # Two classes, and base values of several targets: known_differences.md.
    targets = b.number(3, 4) if op == "TreeEnsembleClassifier" else b.number(1, 3)
    trees = [random_tree(b, x.dims[1], b.number(0, 3), targets) for _ in range(b.number(1, 4))]
    rows = [(t, n, *columns) for t, (nodes, _) in enumerate(trees) for n, columns in enumerate(nodes)]
    leaves = [(t, *leaf) for t, (_, found) in enumerate(trees) for leaf in found]
    columns = list(zip(*rows))
    tree = dict(zip(("nodes_treeids", "nodes_nodeids", "nodes_modes", "nodes_featureids", "nodes_values",
                     "nodes_truenodeids", "nodes_falsenodeids"), map(list, columns)))  # fmt: skip
    of = "class" if op == "TreeEnsembleClassifier" else "target"
    tree |= dict(zip((f"{of}_treeids", f"{of}_nodeids", f"{of}_ids", f"{of}_weights"), map(list, zip(*leaves))))
    if op == "TreeEnsembleRegressor":
        b.emit(op, [x], domain=ML, n_targets=targets, aggregate_function=b.pick((None, "SUM", "AVERAGE", "MIN", "MAX")),
               base_values=b.pick((None, floats(b, 1))) if targets == 1 else None, **tree)  # fmt: skip
        return
    kinds = {"classlabels_int64s": list(range(targets))} if b.chance(0.5) else {
        "classlabels_strings": [f"c{i}" for i in range(targets)]}  # fmt: skip
    _, scores = b.emit(op, [x], outputs=2, domain=ML, post_transform=b.pick(POST), **kinds, **tree)
    near_ties(scores)


@operator("FeatureVectorizer", domain=ML)
def feature_vectorizer(b, op):
    x = features(b, ("f32",))
    if not x.is_static:
        raise Rejected("unknown size")
    y = b.fresh("f32", [x.dims[0], b.number(1, 4)])
    b.emit(op, [x, y], domain=ML, exact=True, inputdimensions=[x.dims[1], y.dims[1]])


@operator("CategoryMapper", domain=ML)
def category_mapper(b, op):
    x = b.value(("string", "i64"), ranks=(1, 2))
    b.emit(op, [x], domain=ML, exact=True, cats_int64s=[1, 2, 42], cats_strings=["a", "abc", "42"])
