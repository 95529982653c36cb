"""Models of text and pictures of Transformers with random weights: what camshaft.llm builds of them reads the same patches, and
has the same rows, logits and texts."""

import json

import camshaft
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
transformers = pytest.importorskip("transformers", reason="Transformers is not installed")
pytest.importorskip("PIL", reason="Pillow is not installed")
llm = pytest.importorskip("camshaft.llm", reason="the Python module was not built: no Python headers")
import PIL.Image  # noqa: E402
import vision_folders as folders  # noqa: E402
from camshaft.llm._images import as_rgb  # noqa: E402
from camshaft.llm._vision_description import read_vision  # noqa: E402
from vision_folders import IMAGE_ID, picture  # noqa: E402

PINPOINTS = [[20, 40], [40, 20], [40, 40], [60, 20], [20, 60]]
QWEN = {**folders.TEXT, "model_type": "qwen2"}
WRITERS = {
    "llava": lambda folder: folders.write_llava(folder),
    "llava of SigLIP and Qwen": lambda folder: folders.write_llava(folder, vision=folders.SIGLIP, text=QWEN.items()),
    "llava of two features": lambda folder: folders.write_llava(folder, vision_feature_layer=[1, -2]),
    "llava_next": lambda folder: folders.write_llava(folder, model_type="llava_next", image_grid_pinpoints=PINPOINTS),
    "qwen2_vl": lambda folder: folders.write_qwen(folder),
    "qwen2_5_vl": lambda folder: folders.write_qwen(folder, vision=folders.QWEN2_5_VISION),
}
SIZES = [(20, 20), (33, 47), (100, 31), (7, 90), (1, 3), (61, 60), (300, 200)]
PROMPTS = [
    ([256, 65, IMAGE_ID, 66, 67], [1]),
    ([70, 71, 72], []),
    ([256, IMAGE_ID, 68, 69, IMAGE_ID, 70], [2, 0]),
    ([IMAGE_ID, 80], [3]),
]


def worst(actual, wanted):
    return np.abs(np.asarray(actual) - wanted).max() / np.abs(wanted).max()


def built(folder, output, **options):
    llm.build(folder, output, **{"tuning": "heuristic", "cache": "f32", **options})
    return output


class Theirs:
    def __init__(self, folder, model=None):
        load = transformers.AutoModelForImageTextToText.from_pretrained
        self.model = (model or load(folder, dtype=torch.float32)).eval()
        self.processor = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")

    def inputs(self, pixels):
        return self.processor(images=[PIL.Image.fromarray(each) for each in pixels], return_tensors="pt")

    def _given(self, inputs):
        names = {"qwen2_vl": ["image_grid_thw"], "qwen2_5_vl": ["image_grid_thw"], "llava_next": ["image_sizes"]}
        return {name: inputs[name] for name in names.get(self.model.config.model_type, [])}

    def rows(self, pixels):
        inputs = self.inputs([pixels])
        with torch.no_grad():
            made = self.model.model.get_image_features(inputs["pixel_values"], **self._given(inputs)).pooler_output
        made = torch.cat(list(made)) if isinstance(made, (list, tuple)) else made
        return made.reshape(-1, made.shape[-1]).numpy()

    def logits(self, ids, pixels):
        ids = torch.tensor([ids])
        given = {}
        if pixels:
            inputs = self.inputs(pixels)
            given = {"pixel_values": inputs["pixel_values"], **self._given(inputs)}
            if "qwen" in self.model.config.model_type:
                given["mm_token_type_ids"] = (ids == IMAGE_ID).int()
        with torch.no_grad():
            return self.model(input_ids=ids, attention_mask=torch.ones_like(ids), **given).logits[0].numpy()


@pytest.fixture(scope="module", params=sorted(WRITERS))
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def folder(kind, tmp_path_factory):
    made = tmp_path_factory.mktemp("vision")
    WRITERS[kind](made / "hf")
    return made


@pytest.fixture(scope="module")
def output(folder):
    return built(folder / "hf", folder / "out")


@pytest.fixture(scope="module")
def theirs(folder):
    return Theirs(folder / "hf")


@pytest.fixture(scope="module")
def vision(output):
    return read_vision(json.loads((output / "llm.json").read_text()), output / "llm.json")


def by_theirs(patches, features, kind):
    """Our patches, rescaled and normalised as the engine does, in the order of their elements."""
    side = int((patches.shape[-1] // 3) ** 0.5)
    pixels = patches.reshape(*patches.shape[:-1], side, side, 3).astype(np.float64) / 255
    pixels = (pixels - np.array(features["image_mean"])) / np.array(features["image_std"])
    if kind.startswith("qwen"):
        colours = np.moveaxis(pixels, -1, 1)
        return np.repeat(colours[:, :, None], 2, axis=2).reshape(len(patches), -1)
    count = int(patches.shape[1] ** 0.5)
    apart = pixels.reshape(len(patches), count, count, side, side, 3).transpose(0, 5, 1, 3, 2, 4)
    return apart.reshape(len(patches), 3, count * side, count * side)


@pytest.mark.parametrize("size", SIZES)
def test_patches(kind, folder, theirs, vision, size):
    pixels = picture(*size, seed=size[0])
    features = json.loads((folder / "hf" / "preprocessor_config.json").read_text())
    ours = vision.processor.inputs(as_rgb(pixels, lambda height, width: None))
    wanted = theirs.inputs([pixels])["pixel_values"].numpy()
    patches = ours.arrays["patches"]
    if "window_starts" in ours.arrays:  # which are theirs within the tower
        patches = patches.reshape(ours.rows, 4, -1)[ours.arrays["order"]].reshape(len(patches), -1)
    made = by_theirs(patches, features, kind)
    wanted = wanted.reshape(made.shape)
    assert np.abs(made - wanted).max() < 1e-5


@pytest.mark.parametrize("size", SIZES)
def test_rows(output, theirs, vision, size):
    pixels = picture(*size, seed=size[1])
    ours = vision.processor.inputs(as_rgb(pixels, lambda height, width: None))
    context = camshaft.Engine(output / "encoder.engine").create_context()
    wanted = theirs.rows(pixels)
    assert ours.rows == len(wanted)
    assert worst(context.run(ours.arrays)["image_embeddings"], wanted) < 1e-5


@pytest.mark.parametrize("options", [{}, {"max_num_batched_tokens": 9}, {"max_num_seqs": 1}], ids=str)
def test_logits_and_texts(output, theirs, options):
    """Of prompts with several pictures, with one and without, beside each other; whole and in chunks."""
    pixels = [picture(*size, seed=3) for size in SIZES]
    model = llm.LLM(output, enable_prefix_caching=False, **{"max_num_seqs": 4, **options})
    params = llm.SamplingParams(
        temperature=0, max_tokens=12, ignore_eos=True, detokenize=False, logprobs=0, prompt_logprobs=0
    )
    prompts = [
        {"prompt_token_ids": ids, **({"multi_modal_data": {"image": [pixels[i] for i in images]}} if images else {})}
        for ids, images in PROMPTS
    ]
    for output_of, (_, images) in zip(model.generate(prompts, params), PROMPTS):
        [sample] = output_of.outputs
        ids = output_of.prompt_token_ids + sample.token_ids
        logits = theirs.logits(ids, [pixels[i] for i in images])
        wanted = logits - np.log(np.exp(logits.astype(np.float64)).sum(-1, keepdims=True))
        wanted = wanted[np.arange(len(ids) - 1), ids[1:]]
        found = [next(iter(each.values())).logprob for each in [*output_of.prompt_logprobs[1:], *sample.logprobs]]
        assert np.abs(found - wanted).max() < 1e-4 * np.abs(logits).max()
        begin = len(output_of.prompt_token_ids)
        assert sample.token_ids == logits[begin - 1 : -1].argmax(-1).tolist()


@pytest.mark.parametrize("name", ["llava", "llava_next", "qwen2_vl", "qwen2_5_vl"])
def test_folders_that_transformers_writes(tmp_path, name):
    """Configurations, names of tensors and processors as it saves them."""
    WRITERS[name](tmp_path / "first")
    first = Theirs(tmp_path / "first")
    first.model.save_pretrained(tmp_path / "hf")
    first.processor.save_pretrained(tmp_path / "hf")
    output = built(tmp_path / "hf", tmp_path / "out")
    pixels = picture(40, 30, 5)
    model = llm.LLM(output)
    params = llm.SamplingParams(temperature=0, max_tokens=8, ignore_eos=True, detokenize=False)
    prompt = {"prompt_token_ids": [65, IMAGE_ID, 66], "multi_modal_data": {"image": pixels}}
    [output_of] = model.generate(prompt, params)
    begin, ids = len(output_of.prompt_token_ids), output_of.prompt_token_ids + output_of.outputs[0].token_ids
    assert output_of.outputs[0].token_ids == first.logits(ids, [pixels])[begin - 1 : -1].argmax(-1).tolist()


def test_processors_as_one_file(tmp_path):
    """processor_config.json, which Transformers 5 writes where there is a tokenizer beside."""
    WRITERS["llava"](tmp_path / "hf")
    features = json.loads((tmp_path / "hf" / "preprocessor_config.json").read_text())
    built(tmp_path / "hf", tmp_path / "one")
    (tmp_path / "hf" / "preprocessor_config.json").unlink()
    (tmp_path / "hf" / "processor_config.json").write_text(
        json.dumps({"processor_class": "LlavaProcessor", "image_processor": features})
    )
    built(tmp_path / "hf", tmp_path / "two")
    assert json.loads((tmp_path / "one/llm.json").read_text()) == json.loads((tmp_path / "two/llm.json").read_text())
