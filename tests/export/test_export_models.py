"""The zoo and random graphs, written back as ONNX: ONNX Runtime gives the original's results, at all sizes."""

import exporting
import generate
import numpy as np
import pytest
from catalog import EVERY

# Of every kind one: these take seconds.
QUICK = (
    "ppocr_cls ppocr_rec hf_t5_encoder hf_llama_past own_loop_script own_lstm own_nms_head own_scatter_gather "
    "own_superres own_tcn own_topk_head tv_mobilenet_v2"
).split()
SEEDS = range(1000, 1040)
RELATIVE, ABSOLUTE = 2e-3, 1e-4


def check_model(name, folder):
    model, wrong = EVERY[name], []
    for canonicalize in (False, True):
        out = folder / "copy.onnx"
        request = {"model": str(model.path()), "out": str(out), "canonicalize": canonicalize, "compare": False}
        (answer,) = exporting.export([request])
        assert answer["status"] == "same", answer["message"]
        for label in model.feeds:
            feed = model.feed(label)
            assert exporting.run(model.path(), feed) is not None
            if what := exporting.complaint(model.path(), out, feed, RELATIVE, ABSOLUTE):
                wrong.append(f"canonical: {canonicalize}, {label}: {what}")
        out.unlink()
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", QUICK)
def test_small_models_come_back(name, tmp_path):
    check_model(name, tmp_path)


@pytest.mark.large
@pytest.mark.parametrize("name", [name for name in EVERY if name not in QUICK])
def test_large_models_come_back(name, tmp_path):
    check_model(name, tmp_path)


# What ONNX has no operator for outside of another one, see docs/limits.md.
REFUSED = ("support_vector_vote", "map_entries", "find_keys", "score_transform", "check")


# ONNX Runtime moves a Pad into the pooling behind it, and refuses that for more padding than the kernel is wide. It
# comes of an LpPool that rounds up.
REFUSED_BY_ONNXRUNTIME = "Pad should be smaller than kernel"


@pytest.mark.parametrize("canonicalize", [False, True], ids=["as imported", "canonical"])
def test_random_graphs_come_back(canonicalize, tmp_path):
    cases, requests = [], []
    for seed in SEEDS:
        case = generate.generate(seed)
        if case is None:
            continue
        path = tmp_path / f"{seed}.onnx"
        path.write_bytes(case.model.SerializeToString())
        cases.append(case)
        out = str(tmp_path / f"{seed}.copy.onnx")
        requests.append({"model": str(path), "out": out, "canonicalize": canonicalize, "compare": False})
    wrong = []
    for case, request, answer in zip(cases, requests, exporting.export(requests)):
        if answer["status"] == "refused" and any(f"'{operator}'" in answer["message"] for operator in REFUSED):
            continue
        if answer["status"] != "same":
            wrong.append(f"seed {case.seed}: {answer['message']}")
            continue
        for feed in case.feeds:
            what = exporting.complaint(request["model"], request["out"], feed, 5e-3, ABSOLUTE)
            if what and REFUSED_BY_ONNXRUNTIME not in what:
                wrong.append(f"seed {case.seed}: {what}")
                break
    assert not wrong, "\n".join(wrong)


def test_large_tensors_lie_beside_the_model(tmp_path):
    """With data in a file of its own, from one size on, and in canonical form."""
    model = EVERY["own_tcn"]
    out = tmp_path / "copy.onnx"
    request = {"model": str(model.path()), "out": str(out), "external_from": 4096, "compare": False}
    (answer,) = exporting.export([request])
    assert answer["status"] == "same", answer["message"]
    data = tmp_path / "copy.onnx.data"
    assert data.stat().st_size > 4096 and sorted(tmp_path.iterdir()) == [out, data]
    assert exporting.complaint(model.path(), out, model.feed(), RELATIVE, ABSOLUTE) is None
    with pytest.raises(AssertionError):  # the comparison can fail
        feed = {name: np.zeros_like(array) for name, array in model.feed().items()}
        expected, actual = exporting.run(model.path(), model.feed()), exporting.run(out, feed)
        assert not any(exporting.difference(expected[n], actual[n], RELATIVE, ABSOLUTE) for n in expected)
