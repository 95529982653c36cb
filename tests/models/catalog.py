#!/usr/bin/env python3
"""The models that Camshaft is held to: how to make each, and inputs at several sizes.

usage: catalog.py [NAME...]      makes the ONNX files (all without a name) and prints their paths
"""

import hashlib
import os
import sys
import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("tests/models", "tests/zoo", "examples/ocr", "scripts")]

if __name__ == "__main__":
    import project_python

    project_python.use()

import beit
import deberta
import mask_rcnn
import minilm
import numpy as np
import ocr_inputs
import zoo

WHEEL_MODELS = ROOT / ".cache/models/rapidocr_onnxruntime/models"


def made_folder():
    """One for each state of what makes the models; older ones may be deleted."""
    digest = hashlib.sha256()
    written = [Path(module.__file__) for module in (beit, deberta, mask_rcnn, minilm)]
    for source in [*sorted(Path(zoo.__file__).parent.glob("*.*")), *written]:
        digest.update(source.read_bytes())
    return ROOT / ".cache/zoo" / digest.hexdigest()[:8]


MADE = made_folder()


@dataclass(frozen=True)
class Model:
    """A model, its cost and its inputs. `feeds` maps a size's label to a function that makes {input: array}; the first is
    batch 1 and the one that is measured. A `quick` model is part of every test run."""

    name: str
    megabytes: int
    quick: bool
    path: Callable[[], Path]
    feeds: dict
    ranked: bool = False  # the outputs are a list of detections, in the order of their scores

    def feed(self, label=None):
        return self.feeds[label or next(iter(self.feeds))]()


BEING_MADE = defaultdict(threading.Lock)


def made(name, proto):
    """Writes proto()'s model to the cache unless it is there; an interrupted write leaves nothing behind. Threads that want
    the same one wait for the first."""
    path = MADE / f"{name}.onnx"
    with BEING_MADE[name]:
        if not path.exists():
            MADE.mkdir(parents=True, exist_ok=True)
            partial = MADE / f"{name}.{os.getpid()}.partial"
            try:
                partial.write_bytes(proto().SerializeToString())
                partial.rename(path)
            finally:
                partial.unlink(missing_ok=True)
    return path


def from_zoo(name, quick=False, batches=(1, 3), lengths=(None,)):
    """A zoo model by its name without the exporter's suffix, at each batch size and sequence length."""
    file = next(key for key in zoo.index() if key.split(".")[0] == name)
    meta = zoo.index()[file]
    feeds = {}
    for batch in batches:
        for length in lengths:
            label = f"batch {batch}" + (f", length {length}" if length else "")
            feeds[label] = lambda batch=batch, length=length: zoo.inputs(meta, batch, length)
    return Model(
        name,
        meta["full_bytes"] // 1_000_000,
        quick,
        lambda: made(name, lambda: zoo.materialize(file)),
        feeds,
    )


def minilm_feed(batch, length):
    rng = np.random.default_rng(batch * 1000 + length)
    mask = np.ones((batch, length), np.int64)
    for row in range(1, batch):
        mask[row, length - row * (length // (batch + 1)) :] = 0
    return {"input_ids": rng.integers(1000, 30000, (batch, length)), "attention_mask": mask}


def feeds_of(function, *sizes):
    """{label: function} over (label, arguments...)."""
    return {label: lambda arguments=arguments: function(*arguments) for label, *arguments in sizes}


MODELS = {
    model.name: model
    for model in [
        Model(
            "ppocr_rec",
            11,
            True,
            lambda: WHEEL_MODELS / "ch_PP-OCRv4_rec_infer.onnx",
            feeds_of(
                lambda count, width: {"x": ocr_inputs.lines(count, width)},
                ("batch 1, width 320", 1, 320),
                ("batch 1, width 614", 1, 614),
                ("batch 3, width 320", 3, 320),
                ("batch 3, width 614", 3, 614),
            ),
        ),
        Model(
            "ppocr_det",
            5,
            True,
            lambda: WHEEL_MODELS / "ch_PP-OCRv4_det_infer.onnx",
            feeds_of(
                lambda *size: {"x": ocr_inputs.pages(*size)},
                ("batch 1, 320x640", 1, 320, 640),
                ("batch 1, 224x256", 1, 224, 256),
                ("batch 2, 224x256", 2, 224, 256),
            ),
        ),
        Model(
            "ppocr_cls",
            1,
            True,
            lambda: WHEEL_MODELS / "ch_ppocr_mobile_v2.0_cls_infer.onnx",
            feeds_of(
                lambda *size: {"x": ocr_inputs.upright_and_turned(*size)},
                ("batch 1, 48x192", 1, 48, 192),
                ("batch 5, 48x192", 5, 48, 192),
                ("batch 2, 64x320", 2, 64, 320),
            ),
        ),
        Model(
            "minilm",
            91,
            True,
            lambda: made("minilm", minilm.model),
            feeds_of(
                minilm_feed,
                ("batch 1, length 128", 1, 128),
                ("batch 1, length 17", 1, 17),
                ("batch 4, length 17", 4, 17),
                ("batch 4, length 50", 4, 50),
            ),
        ),
        Model(
            "beit",
            7,
            True,
            lambda: made("beit", beit.model),
            feeds_of(
                beit.images,
                ("batch 1, 224x224", 1, 224, 224),
                ("batch 2, 160x192", 2, 160, 192),
            ),
        ),
        *(
            Model(
                name,
                megabytes,
                True,
                lambda name=name, buckets=buckets: made(name, lambda: deberta.model(2, 192, 3, buckets)),
                feeds_of(
                    deberta.tokens,
                    ("batch 1, length 128", 1, 128),
                    ("batch 3, length 37", 3, 37),
                    ("batch 2, length 300", 2, 300),
                ),
            )
            for name, megabytes, buckets in (("deberta", 6, 0), ("deberta_v3", 5, deberta.BUCKETS))
        ),
        from_zoo("tv_mobilenet_v2", quick=True),
        from_zoo("tv_efficientnet_b0", quick=True),
        from_zoo("timm_mobilevit_s", quick=True, batches=(1, 2)),
        from_zoo("own_unet", quick=True),
        from_zoo("own_yolov5s", batches=(1, 2)),
        from_zoo("tv_resnet50", batches=(1, 2)),
        from_zoo("tv_vgg16", batches=(1, 2)),
        from_zoo("tv_vit_b_16", batches=(1,)),  # exported with a fixed batch
        from_zoo("tv_swin_t", batches=(1, 2)),
        from_zoo("seg_deeplabv3_resnet50", batches=(1, 2)),
        from_zoo("hf_bert", batches=(1, 2), lengths=(128, 37)),
        from_zoo("hf_gpt2", batches=(1, 2), lengths=(64, 37)),
    ]
}

# Exported for one shape only.
FIXED = (
    "det_fasterrcnn_resnet50_fpn det_ssd300_vgg16 hf_llama_past hf_whisper_encoder own_loop_script own_nms_head "
    "own_scatter_gather own_topk_head timm_volo_d1_224 timm_xcit_nano_12_p8_224"
).split()

# Small enough, in bytes and in operations, for every test run; with the quick ones above they are a third of the zoo.
SMALL = (
    "hf_bloom hf_clip_text hf_llama hf_llama_past hf_mistral hf_phi hf_t5_encoder own_loop_script own_lstm own_nms_head "
    "own_scatter_gather own_superres own_tcn own_topk_head timm_xcit_nano_12_p8_224 tv_mobilenet_v3_large "
    "tv_shufflenet_v2_x1_0"
).split()


def rest_of_zoo(file):
    """A zoo model as it was exported, and at a second batch size where it is not fixed."""
    name = file.split(".")[0]
    meta = zoo.index()[file]
    feeds = {"as exported": lambda: zoo.inputs(meta)}
    if name not in FIXED:
        length = 37 if "input_ids" in meta["inputs"] else None
        feeds["batch 3"] = lambda: zoo.inputs(meta, 3, length)
    path = lambda: made(name, lambda: zoo.materialize(file))  # noqa: E731
    return Model(name, meta["full_bytes"] // 1_000_000, name in SMALL, path, feeds, name.startswith("det_"))


# The rest of the zoo: held to the same results, not measured.
OTHERS = {file.split(".")[0]: rest_of_zoo(file) for file in zoo.index() if file.split(".")[0] not in MODELS}
OTHERS["mask_rcnn"] = Model(
    "mask_rcnn",
    1,
    True,
    lambda: made("mask_rcnn", mask_rcnn.model),
    feeds_of(mask_rcnn.image, ("224x320", 224, 320), ("167x250", 167, 250), ("64x64", 64, 64)),
    ranked=True,
)
EVERY = MODELS | OTHERS


@dataclass(frozen=True)
class Measured:
    """A model that bench/compare measures: `feed(batch)` makes {input: array}. A fixed one has no other batch; one that
    is measured `as_is` keeps its inputs' shapes open."""

    name: str
    path: Callable[[], Path]
    feed: Callable[[int], dict]
    fixed: bool = False
    as_is: bool = False


def measured(name):
    """A zoo model at a batch size, its tokens 128 long where their number is free."""
    meta = zoo.index()[next(key for key in zoo.index() if key.split(".")[0] == name)]
    if name in FIXED_BATCH:
        return Measured(name, EVERY[name].path, lambda batch: zoo.inputs(meta), fixed=True)
    length = 128 if "input_ids" in meta["inputs"] else None
    return Measured(name, EVERY[name].path, lambda batch: zoo.inputs(meta, batch, length))


def speech_feed(batch):
    rng = np.random.default_rng(batch)
    return {
        "input": (0.1 * rng.standard_normal((batch, 576))).astype(np.float32),
        "state": np.zeros((2, batch, 128), np.float32),
        "sr": np.array(16000),
    }


FIXED_BATCH = {*FIXED, "tv_vit_b_16"}
BENCH = {
    model.name: model
    for model in [
        *map(
            measured,
            "tv_resnet18 tv_resnet50 tv_mobilenet_v2 tv_mobilenet_v3_large tv_vgg16 tv_efficientnet_b0 "
            "tv_efficientnet_b4 tv_densenet121 tv_shufflenet_v2_x1_0 tv_convnext_tiny tv_swin_t tv_vit_b_16 own_yolov5s "
            "own_unet own_superres seg_deeplabv3_resnet50 timm_mobilevit_s hf_bert hf_distilbert hf_gpt2 hf_llama_past "
            "hf_whisper_encoder hf_segformer own_lstm".split(),
        ),
        Measured("ppocr_det", MODELS["ppocr_det"].path, lambda batch: {"x": ocr_inputs.pages(batch, 320, 640)}),
        Measured("ppocr_rec", MODELS["ppocr_rec"].path, lambda batch: {"x": ocr_inputs.lines(batch, 320)}),
        # Its branch for the other sample rate takes no chunks of this length: with them fixed it is no valid model.
        Measured(
            "silero_vad",
            lambda: ROOT / ".cache/models/silero_vad/data/silero_vad.onnx",
            speech_feed,
            as_is=True,
        ),
        Measured("minilm", MODELS["minilm"].path, lambda batch: minilm_feed(batch, 128)),
        *(
            Measured(
                name,
                lambda buckets=buckets: made(f"deberta_base_{buckets}", lambda: deberta.model(12, 768, 12, buckets)),
                lambda batch, length=length: deberta.tokens(batch, length),
            )
            for name, buckets, length in (
                ("deberta", 0, 128),
                ("deberta_v3", deberta.BUCKETS, 128),
                ("deberta_512", 0, 512),
                ("deberta_v3_512", deberta.BUCKETS, 512),
            )
        ),
    ]
}

if __name__ == "__main__":
    for name in sys.argv[1:] or MODELS:
        if name not in EVERY:
            sys.exit(f"no such model: {name}; there are {', '.join(EVERY)}")
        print(EVERY[name].path(), flush=True)
