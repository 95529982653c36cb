"""Calibration: ranges are those that NumPy finds by the published methods, data comes from arrays and pictures, and what
is wrong with it is said."""

import json
import struct
import subprocess

import numpy as np
import onnxruntime
import pytest
from camshaft_cli import BINARY, camshaft
from catalog import MODELS
from PIL import Image

import onnx
from onnx import TensorProto, helper, numpy_helper


def save_model(path, inputs, nodes, weights):
    """`inputs`: [(name, dims)], all f32; the last node's result is the output."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in inputs],
        [helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value, np.float32), name) for name, value in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.fixture
def product(tmp_path):
    """x [n, 64] -> relu(x) @ w -> y @ w: ranges of relu(x) and of y."""
    weights = {"w": np.random.default_rng(5).standard_normal((64, 64)) / 8}
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], name="relu"),
        helper.make_node("MatMul", ["r", "w"], ["y"], name="first"),
        helper.make_node("MatMul", ["y", "w"], ["z"], name="second"),
    ]
    return save_model(tmp_path / "product.onnx", [("x", ["n", 64])], nodes, weights)


@pytest.fixture
def image(tmp_path):
    """A convolution of a picture of 8 x 8, whose operand is the picture."""
    nodes = [helper.make_node("Conv", ["picture", "w"], ["y"], name="conv")]
    weights = {"w": np.full((4, 3, 3, 3), 0.1)}
    return save_model(tmp_path / "image.onnx", [("picture", [1, 3, 8, 8])], nodes, weights)


def calibrate(model, data, *options, fails=False):
    """The report, and the ranges of the file by tensor."""
    output = model.parent / "ranges"
    output.unlink(missing_ok=True)
    command = [BINARY, "calibrate", model, "--data", data, "-o", output, "--json", *options]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if fails:
        assert done.returncode != 0 and not output.exists(), done.stdout
        return done.stderr
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), json.loads(output.read_text())["ranges"]


# --- the published methods, in NumPy ---


def histogram(batches, bins=2048):
    """NVIDIA's: the first batch settles the width, larger numbers add bins of it."""
    counts, width = None, None
    for batch in batches:
        x = np.abs(batch.astype(np.float32)).ravel()
        most = x.max()
        if counts is None:
            width = most / np.float32(bins)
            counts = np.zeros(bins)
        per_width = np.float32(1) / width
        needed = int(np.ceil(most * per_width))
        counts = np.pad(counts, (0, max(0, needed - len(counts))))
        at = np.minimum((x * per_width).astype(np.int64), len(counts) - 1)
        counts += np.bincount(at, minlength=len(counts))
    return counts, float(width)


def entropy(counts, width):
    bins = counts.copy()
    bins[0] = bins[1]
    total = bins.sum()
    best, threshold = np.inf, None
    for i in range(128, len(bins) + 1):
        level = np.digitize(np.arange(i), np.linspace(0, i, num=129)) - 1
        filled = bins[:i] > 0
        sums = np.bincount(level[filled], bins[:i][filled], minlength=128)
        numbers = np.maximum(np.bincount(level[filled], minlength=128), 1)
        q = np.where(filled, (sums / numbers)[level], 0)
        p = bins[:i].copy()
        p[-1] += bins[i:].sum()
        p, q = p / p.sum(), q / q.sum()
        here = p > 0
        divergence = np.inf if np.any(q[here] == 0) else float(np.sum(p[here] * np.log(p[here] / q[here])))
        if divergence <= best + 1e-13:
            best, threshold = min(best, divergence), i * width
    assert abs(total - bins.sum()) < 1
    return threshold


def mse(counts, width):
    centers = (np.arange(len(counts)) + 0.5) * width
    errors = []
    for i in range(128, len(counts)):
        step = centers[i] / 127
        q = np.clip(np.round(centers / step), -128, 127) * step
        errors.append(np.mean((q - centers) ** 2 * counts))
    return centers[128 + int(np.argmin(errors))]


def percentile(counts, width, percent):
    cumulated = np.cumsum(counts)
    return (np.searchsorted(cumulated, percent / 100 * cumulated[-1]) + 1) * width


METHODS = {
    "entropy": entropy,
    "mse": mse,
    "percentile": lambda counts, width: percentile(counts, width, 99.5),
    "minmax": lambda counts, width: np.inf,
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("heavy", [False, True])
def test_ranges_are_those_of_numpy(product, tmp_path, method, heavy):
    random = np.random.default_rng(11)
    draw = (lambda *s: random.standard_t(4, s)) if heavy else (lambda *s: random.standard_normal(s))
    data = tmp_path / "data"
    data.mkdir()
    batches = [(draw(500, 64) * (1 + i)).astype(np.float32) for i in range(3)]
    for i, batch in enumerate(batches):
        np.savez(data / f"{i}.npz", x=batch)
    report, ranges = calibrate(
        product, data, "--method", method, *(["--percentile", "99.5"] if method == "percentile" else [])
    )
    w = numpy_helper.to_array(onnx.load(product).graph.initializer[0])
    tensors = {"r": [np.maximum(b, 0) for b in batches]}
    tensors["y"] = [r @ w for r in tensors["r"]]
    assert set(ranges) == set(tensors) and report["samples"] == 1500 and report["batches"] == 3
    for name, values in tensors.items():
        threshold = METHODS[method](*histogram(values))
        low = max(min(v.min() for v in values), -threshold)
        high = min(max(v.max() for v in values), threshold)
        # Sums of products may fall into the next bin.
        assert ranges[name] == pytest.approx([low, high], rel=1e-6 if name == "r" else 1e-3, abs=1e-6), name


def test_results_do_not_depend_on_threads(product, tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(3).standard_normal((3000, 64)).astype(np.float32))
    results = [calibrate(product, tmp_path / "x.npy", "--threads", threads)[1] for threads in (1, 2, 4)]
    assert results[0] == results[1] == results[2]


def test_arrays_are_cut_into_batches(product, tmp_path):
    x = np.random.default_rng(3).standard_normal((10, 64)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    for options, batches, samples in [([], 1, 10), (["--batch", 4], 3, 10), (["--batch", 4, "--max-samples", 7], 2, 7)]:
        report, _ = calibrate(product, tmp_path / "x.npy", *options)
        assert (report["batches"], report["samples"]) == (batches, samples)
    # A model of a fixed batch gets whole ones.
    report, _ = calibrate(product, tmp_path / "x.npy", "--shapes", "x:4x64")
    assert (report["batches"], report["samples"], report["left_out"]) == (2, 8, 2)
    # Files of single samples, without an axis of samples, are put together.
    data = tmp_path / "data"
    data.mkdir()
    for i, sample in enumerate(x):
        np.save(data / f"{i}.npy", sample)
    assert (
        calibrate(product, data, "--shapes", "x:5x64", "--method", "minmax")[1]
        == (calibrate(product, tmp_path / "x.npy", "--method", "minmax")[1])
    )


def test_cache_of_tensorrt(product, tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(3).standard_normal((100, 64)).astype(np.float32))
    _, ranges = calibrate(product, tmp_path / "x.npy", "--method", "minmax")
    camshaft(
        "calibrate",
        product,
        "--data",
        tmp_path / "x.npy",
        "-o",
        tmp_path / "c",
        "--method",
        "minmax",
        "--format",
        "tensorrt",
    )
    header, *lines = (tmp_path / "c").read_text().splitlines()
    assert header == "TRT-8601-MinMaxCalibration"
    for line in lines:
        name, _, digits = line.rpartition(": ")
        (scale,) = struct.unpack(">f", bytes.fromhex(digits.rjust(8, "0")))
        assert scale * 127 == pytest.approx(max(map(abs, ranges[name])), rel=1e-6)
    assert len(lines) == len(ranges)


def test_what_looks_wrong_is_said(product, tmp_path):
    def warnings(x):
        np.save(tmp_path / "x.npy", x)
        return "\n".join(calibrate(product, tmp_path / "x.npy")[0]["warnings"])

    random = np.random.default_rng(3)
    assert warnings(random.standard_normal((64, 64)).astype(np.float32)) == ""
    assert "only 2 samples" in warnings(random.standard_normal((2, 64)).astype(np.float32))
    assert "2 tensors were always zero: 'r', 'y'" in warnings(np.full((64, 64), -1, np.float32))
    assert "one tensor was always the same number: 'r'" in warnings(np.ones((64, 64), np.float32))
    x = random.standard_normal((64, 64)).astype(np.float32)
    x[3, 3] = np.inf
    assert "had NaN or infinities" in warnings(x)
    np.save(tmp_path / "x.npy", np.full((64, 64), np.nan, np.float32))
    assert "no tensor a finite number" in calibrate(product, tmp_path / "x.npy", fails=True)


def test_data_that_does_not_fit_names_the_file(product, image, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    assert "there is no such file" in calibrate(product, tmp_path / "none", fails=True)
    assert "has no calibration data" in calibrate(product, data, fails=True)
    np.save(data / "a.npy", np.zeros((2, 64), np.float32))
    np.save(data / "b.npy", np.zeros((2, 63), np.float32))
    said = calibrate(product, data, fails=True)
    assert "b.npy" in said and "f32[n, 64]" in said and "[2, 63]" in said
    np.save(data / "b.npy", np.zeros((2, 64), np.float64))
    said = calibrate(product, data, fails=True)
    assert "b.npy" in said and "f32" in said and "f64" in said
    (data / "b.npy").write_bytes(b"\x93NUMPY damaged")
    assert "b.npy" in calibrate(product, data, fails=True)
    np.savez(data / "c.npz", x=np.zeros((2, 64), np.float32))
    assert "of one kind" in calibrate(product, data, fails=True)
    assert "no input 'q'" in calibrate(product, saved(tmp_path / "q.npz", q=np.zeros((2, 64))), fails=True)
    assert "no array for the input 'x'" in calibrate(product, saved(tmp_path / "n.npz"), fails=True)
    assert "no sample" in calibrate(product, saved(tmp_path / "e.npz", x=np.zeros((0, 64), np.float32)), fails=True)
    Image.new("RGB", (4, 4)).save(tmp_path / "p.png")
    assert "pictures are for models of one input" in calibrate(product, tmp_path / "p.png", fails=True)
    (tmp_path / "p.png").write_bytes(b"no picture")
    said = calibrate(image, tmp_path / "p.png", fails=True)
    assert "p.png" in said and "no BMP, JPEG, PNG" in said


def test_data_is_not_overwritten(product, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    np.save(data / "a.npy", np.ones((2, 64), np.float32))
    before = (data / "a.npy").read_bytes()
    for output in [data / "a.npy", data, product, ""]:
        done = camshaft("calibrate", product, "--data", data, "-o", output, check=False)
        assert done.returncode == 2 and ("path of the file" if output == "" else "overwrite") in done.stderr
    assert (data / "a.npy").read_bytes() == before
    camshaft("calibrate", product, "--data", data, "-o", data / "ranges")


def test_links_that_lead_nowhere_are_named(product, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    np.save(data / "a.npy", np.ones((2, 64), np.float32))
    (data / "folder").symlink_to(data)  # not followed
    (data / "loop").symlink_to(data / "loop")  # no data by its name
    calibrate(product, data)
    (data / "b.npy").symlink_to(tmp_path / "gone.npy")
    assert "b.npy" in calibrate(product, data, fails=True)
    (data / "b.npy").unlink()
    (data / "b.npy").symlink_to(data / "b.npy")
    assert "b.npy" in calibrate(product, data, fails=True)


def test_too_few_samples_for_a_batch(tmp_path):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")]
    model = save_model(tmp_path / "fixed.onnx", [("x", [4, 8])], nodes, {"w": np.ones((8, 8))})
    np.save(tmp_path / "x.npy", np.ones((3, 8), np.float32))
    assert "batches of 4, and there are only 3 samples" in calibrate(model, tmp_path / "x.npy", fails=True)
    np.save(tmp_path / "x.npy", np.ones((9, 8), np.float32))
    assert "only 1 sample " in calibrate(model, tmp_path / "x.npy", "--max-samples", "1", fails=True)
    assert calibrate(model, tmp_path / "x.npy")[0]["left_out"] == 1


def saved(path, **arrays):
    np.savez(path, **arrays)
    return path


def test_bad_options_are_refused(product, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((2, 64), np.float32))
    for options, said in [
        (["--method", "max"], "no calibration method is named 'max'"),
        (["--method", "percentile", "--percentile", "0"], "percentile cannot be 0"),
        (["--method", "percentile", "--percentile", "101"], "percentile cannot be 101"),
        (["--method", "mse", "--percentile", "99"], "give --method percentile"),
        (["--crop", "8"], "--crop is for pictures"),
        (["--mean", "0.5"], "--mean is for pictures"),
        (["--channels", "bgr"], "--channels is for pictures"),
        (["--format", "xml"], "no format of calibrations is named 'xml'"),
        (["--mean", "1,2"], "one number, or three"),
        (["--std", "0"], "std cannot be '0'"),
        (["--crop", "0x3"], "crop must be"),
        (["--channels", "gbr"], "rgb or bgr"),
    ]:
        assert said in calibrate(product, tmp_path / "x.npy", *options, fails=True)


def test_a_model_without_layers_for_int8_is_refused(tmp_path):
    model = save_model(tmp_path / "m.onnx", [("x", ["n", 4])], [helper.make_node("Relu", ["x"], ["y"])], {})
    np.save(tmp_path / "x.npy", np.zeros((2, 4), np.float32))
    assert "nothing to calibrate" in calibrate(model, tmp_path / "x.npy", fails=True)


@pytest.mark.parametrize("name", ["ppocr_cls", "minilm"])
def test_ranges_have_the_models_names_and_numbers(name, tmp_path):
    """Of every tensor ONNX Runtime sees the same extremes, without any of its own optimisations."""
    model, feed = MODELS[name].path(), MODELS[name].feed()
    saved(tmp_path / "in.npz", **feed)
    options = ["--data", tmp_path / "in.npz", "-o", tmp_path / "r", "--method", "minmax"]
    camshaft("calibrate", model, *options, "--format", "tensorrt")
    caches = [line.rsplit(": ", 1)[0] for line in (tmp_path / "r").read_text().splitlines()[1:]]
    camshaft("calibrate", model, *options)
    ranges = json.loads((tmp_path / "r").read_text())["ranges"]
    assert set(ranges) == set(caches)
    proto = onnx.load(model)
    known = {output.name for output in proto.graph.output}
    proto.graph.output.extend(onnx.ValueInfoProto(name=n) for n in ranges if n not in known and n not in feed)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [n for n in ranges if n not in feed]
    tensors = dict(zip(names, session.run(names, feed))) | feed
    for tensor, (low, high) in ranges.items():
        extremes = [float(tensors[tensor].min()), float(tensors[tensor].max())]
        assert [low, high] == pytest.approx(extremes, abs=1e-4 * float(np.abs(extremes).max())), tensor


# --- pictures ---


def picture_extremes(model, path, *options):
    """The smallest and the largest number that the model got."""
    report, _ = calibrate(model, path, "--method", "minmax", *options)
    (tensor,) = report["tensors"]
    return [tensor["seen_min"], tensor["seen_max"]], report


def prepared(path, resize, crop, scale=1 / 255, mean=(0, 0, 0), std=(1, 1, 1), bgr=False):
    """As torchvision does it, by Pillow."""
    picture = Image.open(path).convert("RGB")
    width, height = picture.size
    short = min(width, height)
    size = (resize, int(resize * height / width)) if width <= height else (int(resize * width / height), resize)
    assert short > 0
    resized = np.asarray(picture.resize(size, Image.Resampling.BILINEAR), np.float64)
    top, left = round((resized.shape[0] - crop) / 2), round((resized.shape[1] - crop) / 2)
    cut = resized[top : top + crop, left : left + crop]
    return ((cut[:, :, ::-1] if bgr else cut) * scale - mean) / std


@pytest.mark.parametrize("size", [(20, 13), (13, 20), (40, 41), (9, 9), (300, 200)])
@pytest.mark.parametrize("resize", [8, 11, 30])
def test_pictures_are_prepared_as_pillow_does(image, tmp_path, size, resize):
    random = np.random.default_rng(size[0] * 100 + resize)
    path = tmp_path / "p.png"
    Image.fromarray(random.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)).save(path)
    mean, std = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    for options, expected in [
        ([], prepared(path, resize, 8)),
        (["--scale", "1", "--mean", "100"], prepared(path, resize, 8, 1, (100, 100, 100))),
        (
            ["--mean", "0.485,0.456,0.406", "--std", "0.229,0.224,0.225"],
            prepared(path, resize, 8, mean=mean, std=std),
        ),
        # One channel stands out, so that another order shows.
        (
            ["--channels", "bgr", "--mean", "0,0,9", "--std", "1,5,1"],
            prepared(path, resize, 8, mean=(0, 0, 9), std=(1, 5, 1), bgr=True),
        ),
    ]:
        seen, _ = picture_extremes(image, path, "--resize", str(resize), *options)
        # Pillow rounds to whole numbers between the two directions, too.
        step = (
            1.01 if "1" in options[:2] else 1.01 / 255 / (0.224 if len(options) == 4 and "0.229" in options[3] else 1)
        )
        assert seen == pytest.approx([expected.min(), expected.max()], abs=step)


def test_pictures_fill_the_model_without_a_size(image, tmp_path):
    Image.new("L", (31, 17), 51).save(tmp_path / "gray.png")
    seen, report = picture_extremes(image, tmp_path / "gray.png")
    assert seen == pytest.approx([0.2, 0.2])
    assert report["preparation"].startswith("resized to fit, cropped to 8x8")
    assert "cannot be cropped" in calibrate(image, tmp_path / "gray.png", "--resize", "7", fails=True)
    assert "do not fit" in calibrate(image, tmp_path / "gray.png", "--crop", "9", fails=True)


def test_few_of_many_pictures_are_spread_over_all(image, tmp_path):
    for group in range(4):
        folder = tmp_path / "pictures" / str(group)
        folder.mkdir(parents=True)
        for i in range(5):
            Image.new("RGB", (8, 8), (group * 60, group * 60, group * 60)).save(folder / f"{i}.png")
    (tmp_path / "pictures" / "labels.txt").write_text("not data")
    seen, report = picture_extremes(image, tmp_path / "pictures", "--scale", "1", "--max-samples", "4")
    assert seen == [0, 180] and report["samples"] == 4
    assert picture_extremes(image, tmp_path / "pictures", "--scale", "1")[1]["samples"] == 20


def test_channels_last_is_seen_from_the_model(tmp_path):
    nodes = [
        helper.make_node("Transpose", ["picture"], ["t"], perm=[0, 3, 1, 2]),
        helper.make_node("Conv", ["t", "w"], ["y"], name="conv"),
    ]
    model = save_model(tmp_path / "m.onnx", [("picture", [1, 8, 8, 3])], nodes, {"w": np.full((4, 3, 3, 3), 0.1)})
    Image.new("RGB", (8, 8), (10, 20, 30)).save(tmp_path / "p.png")
    seen, report = picture_extremes(model, tmp_path / "p.png", "--scale", "1")
    assert seen == [10, 30] and report["preparation"].endswith("rgb, channels last")
