"""Models of text and pictures built into engines, and what they write. tests/python/pytorch/test_vision.py compares them with
Transformers."""

import json
import threading
import types

import camshaft
import camshaft.llm
import numpy as np
import PIL.Image
import pytest
import vision_folders as folders
from camshaft import CorruptEngineError, InvalidArgumentError, InvalidModelError, UnsupportedError, _native
from camshaft.llm import LLM, SamplingParams, _image_encoder
from llm_folders import write_llama
from safetensors.numpy import load_file, save_file
from vision_folders import IMAGE_ID, picture
from vision_reference import Reference

WRITERS = {
    "llava": lambda folder, **changes: folders.write_llava(folder, **changes),
    "siglip": lambda folder, **changes: folders.write_llava(folder, vision=folders.SIGLIP, **changes),
    "qwen2_vl": lambda folder, **changes: folders.write_qwen(folder, **changes),
    "qwen2_5_vl": lambda folder, **changes: folders.write_qwen(folder, vision=folders.QWEN2_5_VISION, **changes),
}
PICTURES = [picture(33, 47, 1), picture(64, 20, 2), picture(20, 20, 3), picture(9, 60, 4)]
GREEDY = SamplingParams(temperature=0, max_tokens=16, ignore_eos=True, detokenize=False)
#: Each with as many placeholders as it has pictures.
PROMPTS = [
    ([256, 65, IMAGE_ID, 66, 67], [0]),
    ([70, 71, 72], []),
    ([256, IMAGE_ID, 68, 69, IMAGE_ID, 70], [1, 0]),
    ([256, 65, IMAGE_ID, 66, 67], [1]),  # the tokens of the first one, and another picture
    ([IMAGE_ID, IMAGE_ID, IMAGE_ID, 80], [2, 3, 2]),
    ([256, 65, IMAGE_ID, 66, 67, 68], [0]),
]


def build(folder, output, **options):
    return camshaft.llm.build(folder, output, **{"tuning": "heuristic", "cache": "f32", "block_size": 4, **options})


def reference_of(folder):
    read = {name: json.loads((folder / f"{name}.json").read_text()) for name in ("config", "preprocessor_config")}
    return Reference(read["config"], load_file(folder / "model.safetensors"), read["preprocessor_config"])


def prompt_of(tokens, pictures, given=PICTURES):
    images = [given[number] for number in pictures]
    return {"prompt_token_ids": tokens, **({"multi_modal_data": {"image": images}} if images else {})}


def texts_of(llm, params=GREEDY, prompts=PROMPTS):
    outputs = llm.generate([prompt_of(*prompt) for prompt in prompts], params)
    assert not any(sample.error for output in outputs for sample in output.outputs)
    return [[sample.token_ids for sample in output.outputs] for output in outputs]


@pytest.fixture(scope="module", params=sorted(WRITERS))
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def folder(kind, tmp_path_factory):
    made = tmp_path_factory.mktemp(kind)
    WRITERS[kind](made / "hf")
    build(made / "hf", made / "out")
    return made


@pytest.fixture(scope="module")
def llm(folder):
    return LLM(folder / "out", max_num_seqs=4)


@pytest.fixture(scope="module")
def reference(folder):
    return reference_of(folder / "hf")


@pytest.fixture(scope="module")
def expected(reference):
    return [[reference.greedy(tokens, [PICTURES[i] for i in images], 16)] for tokens, images in PROMPTS]


def test_texts_are_the_references(llm, expected):
    assert texts_of(llm) == expected
    assert len({tuple(text) for [text] in expected}) > 3


def test_logprobs_are_the_references(llm, reference):
    params = SamplingParams(temperature=0, max_tokens=1, ignore_eos=True, detokenize=False, prompt_logprobs=0)
    for tokens, images in PROMPTS:
        logits, ids = reference.logits(tokens, [PICTURES[i] for i in images])
        wanted = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        [output] = llm.generate(prompt_of(tokens, images), params)
        assert output.prompt_token_ids == ids
        found = [next(iter(each.values())).logprob for each in output.prompt_logprobs[1:]]
        np.testing.assert_allclose(found, wanted[np.arange(len(ids) - 1), ids[1:]], atol=1e-4 * np.abs(logits).max())


@pytest.mark.parametrize(
    "options",
    [
        {"max_num_batched_tokens": 8},
        {"enable_prefix_caching": False},
        {"max_num_batched_tokens": 13, "max_num_seqs": 2},
        {"num_blocks": 26, "max_model_len": 100, "max_num_seqs": 3, "max_num_batched_tokens": 40},
        {"speculative_config": {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_min": 1}},
    ],
    ids=["chunks", "no prefix cache", "few at once", "preemption", "guesses"],
)
def test_texts_do_not_depend_on_how_they_are_computed(folder, expected, options):
    llm = LLM(folder / "out", **options)
    assert texts_of(llm) == expected
    statistics = llm.statistics()
    if "num_blocks" in options:
        assert statistics["preemptions"] > 0
    if "speculative_config" in options:
        assert statistics["drafted"] > 0
    assert llm.image_encoder.runs == len(PICTURES)  # once for each, whoever shows it
    assert texts_of(llm) == expected  # from the prefix cache
    assert llm.image_encoder.runs == len(PICTURES)


def test_rows_may_come_when_a_requests_turn_does(folder, expected, monkeypatch):
    monkeypatch.setattr(_image_encoder, "_AHEAD_BYTES", 0)
    monkeypatch.setattr(_image_encoder, "_KEPT_BYTES", 0)
    llm = LLM(folder / "out", max_num_seqs=2, max_num_batched_tokens=24, num_blocks=30)
    before = _native.image_bytes()
    assert texts_of(llm) == expected
    assert llm.image_encoder.runs == sum(len(set(images)) or 0 for _, images in PROMPTS) + 1  # one has a picture twice
    assert texts_of(llm, prompts=PROMPTS * 3) == expected * 3
    assert _native.image_bytes() == before


def test_a_picture_that_fails_at_its_turn_ends_its_request_alone(folder, expected, monkeypatch):
    monkeypatch.setattr(_image_encoder, "_AHEAD_BYTES", 0)
    llm = LLM(folder / "out", max_num_seqs=2)
    run = llm.image_encoder._context.run

    def failing(arrays):
        if arrays["patches"].size == broken.inputs.arrays["patches"].size:
            raise camshaft.Error("the tower is out of order")
        return run(arrays)

    broken = llm.image_encoder.prepare(PICTURES[1])
    monkeypatch.setattr(llm.image_encoder, "_context", types.SimpleNamespace(run=failing))
    llm.image_encoder._kept.clear()
    if broken.inputs.arrays["patches"].shape != llm.image_encoder.prepare(PICTURES[0]).inputs.arrays["patches"].shape:
        with pytest.raises(camshaft.Error, match="out of order"):
            texts_of(llm)
        assert texts_of(llm, prompts=PROMPTS[:2]) == expected[:2]
    else:  # all pictures have one size
        with pytest.raises(camshaft.Error, match="out of order"):
            texts_of(llm)
        assert texts_of(llm, prompts=PROMPTS[1:2]) == expected[1:2]
    statistics = llm.statistics()
    assert statistics["running"] == statistics["waiting"] == 0
    assert statistics["free_blocks"] == statistics["blocks"]


def test_samples_of_a_prompt_are_those_of_one_by_one(llm, folder):
    params = SamplingParams(temperature=1, seed=5, n=3, max_tokens=8, ignore_eos=True, detokenize=False)
    together = texts_of(llm, params)
    alone = LLM(folder / "out", max_num_seqs=3, max_num_batched_tokens=11, enable_prefix_caching=False)
    assert [texts_of(alone, params, [prompt])[0] for prompt in PROMPTS] == together
    assert len({tuple(text) for text in together[0]}) > 1


def test_blocks_are_shared_by_prompts_of_the_same_pictures_alone(folder):
    llm = LLM(folder / "out", max_num_seqs=1)
    tokens = [*range(65, 81), IMAGE_ID, *range(81, 90)]  # four blocks of text in front of the picture
    hits = []
    for number in (0, 1, 0):
        before = llm.statistics()["prefix_hit"]
        [output] = llm.generate(prompt_of(tokens, [number]), GREEDY)
        hits.append(llm.statistics()["prefix_hit"] - before)
    assert hits[0] == 0
    assert hits[1] == 16
    assert hits[2] == (len(output.prompt_token_ids) - 1) // 4 * 4


def test_many_threads_ask_at_once(llm, expected):
    wrong = []

    def ask(place):
        for number in (place, place + 1, place + 2):
            prompt = PROMPTS[number % len(PROMPTS)]
            if texts_of(llm, prompts=[prompt])[0] != expected[number % len(PROMPTS)]:
                wrong.append(number)

    threads = [threading.Thread(target=ask, args=[place]) for place in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_pictures_of_pil_are_those_of_arrays(llm):
    tokens = PROMPTS[0][0]
    wanted = llm.generate(prompt_of(tokens, [0]), GREEDY)[0].outputs[0].token_ids
    grey = PIL.Image.fromarray(PICTURES[0]).convert("L")
    given = [PIL.Image.fromarray(PICTURES[0]), grey, np.asarray(grey), grey.convert("P")]
    texts = [
        llm.generate({"prompt_token_ids": tokens, "multi_modal_data": {"image": image}}, GREEDY)[0].outputs[0].token_ids
        for image in given
    ]
    assert texts[0] == wanted
    assert texts[1] == texts[2] == texts[3]


def test_prompts_may_have_all_placeholders(llm, expected):
    [short] = llm.generate(prompt_of(*PROMPTS[2]), GREEDY)
    [long] = llm.generate(prompt_of(short.prompt_token_ids, PROMPTS[2][1]), GREEDY)
    assert long.outputs[0].token_ids == expected[2][0]
    assert long.prompt_token_ids == short.prompt_token_ids


@pytest.mark.parametrize(
    "prompt, what",
    [
        ({"prompt_token_ids": [65, IMAGE_ID]}, "1 placeholders of pictures .* 0 pictures"),
        (prompt_of([65, 66], [0]), "0 placeholders of pictures .* 1 pictures"),
        (prompt_of([65, IMAGE_ID], [0, 1]), "1 placeholders of pictures .* 2 pictures"),
        ({"prompt_token_ids": [65], "multi_modal_data": {"video": 1}}, "multi_modal_data is"),
        ({"prompt_token_ids": [65], "multi_modal_data": [1]}, "multi_modal_data is"),
        ({"prompt_token_ids": [65], "images": [1]}, "a prompt has no 'images'"),
        ({"prompt_token_ids": [65, IMAGE_ID], "multi_modal_data": {"image": "cat.png"}}, "nothing is fetched"),
        ({"prompt_token_ids": [65, IMAGE_ID], "multi_modal_data": {"image": np.zeros((4, 4, 4), np.uint8)}}, "u8"),
        ({"prompt_token_ids": [65, IMAGE_ID], "multi_modal_data": {"image": np.zeros((4, 4, 3))}}, "u8"),
        ({"prompt_token_ids": [65, IMAGE_ID], "multi_modal_data": {"image": np.zeros((0, 4, 3), np.uint8)}}, "nothing"),
        ({"prompt_token_ids": [65, IMAGE_ID], "multi_modal_data": {"image": np.zeros(4, np.uint8)}}, "u8"),
    ],
)
def test_prompts_that_are_wrong(llm, prompt, what):
    with pytest.raises(InvalidArgumentError, match=what):
        llm.generate(prompt, GREEDY)


def test_pictures_have_room(folder):
    llm = LLM(folder / "out", max_model_len=45, max_num_seqs=1, limit_mm_per_prompt={"image": 3})
    with pytest.raises(InvalidArgumentError, match="max_model_len is 45"):
        llm.generate(prompt_of([IMAGE_ID, 65, IMAGE_ID, 66, IMAGE_ID], [1, 1, 1]), GREEDY)
    with pytest.raises(InvalidArgumentError, match="4 pictures; limit_mm_per_prompt allows 3"):
        llm.generate(prompt_of([IMAGE_ID] * 4, [2, 2, 2, 2]), GREEDY)
    assert llm.image_encoder.runs == 0
    for wrong, what in (({"video": 1}, "'video'"), ({"image": -1}, "0 or more"), ({"image": "2"}, "0 or more")):
        with pytest.raises(InvalidArgumentError, match=what):
            LLM(folder / "out", limit_mm_per_prompt=wrong)


@pytest.mark.parametrize("kind", ["qwen2_vl", "qwen2_5_vl"])
def test_thin_pictures_have_more_rows_than_max_pixels_says(tmp_path, kind):
    WRITERS[kind](tmp_path / "hf")
    build(tmp_path / "hf", tmp_path / "out")
    llm, reference = LLM(tmp_path / "out"), reference_of(tmp_path / "hf")
    thin = np.random.default_rng(3).integers(0, 256, (8, 1600, 3), np.uint8)
    image = llm.prepared_image(thin)
    assert image.inputs.rows == llm.image_encoder.vision.processor.most_rows() - 1 > 64
    tokens = [65, IMAGE_ID, 66]
    [output] = llm.generate({"prompt_token_ids": tokens, "multi_modal_data": {"image": thin}}, GREEDY)
    assert output.outputs[0].error is None
    assert output.outputs[0].token_ids == reference.greedy(tokens, [thin], len(output.outputs[0].token_ids))


def test_conversations_show_pictures(llm, kind, reference):
    talk = [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Is "},
                {"type": "image", "image": PICTURES[0]},
                {"type": "text", "text": "this one?"},
            ],
        },
    ]
    made = llm.chat_prompt(talk)
    shown = {"llava": "user: <image>\nIs this one?\n", "siglip": "user: <image>\nIs this one?\n"}
    user = shown.get(kind, "user: Is <|vision_start|><image><|vision_end|>this one?\n")
    assert made["prompt"] == f"system: Be brief.\n{user}assistant: "
    rows = len(reference.rows(PICTURES[0])[0])
    assert made["prompt_token_ids"].count(IMAGE_ID) == rows
    [output] = llm.chat(talk, SamplingParams(temperature=0, max_tokens=5, ignore_eos=True))
    tokens = llm.tokenizer.encode(made["prompt"], add_special_tokens=False).ids
    assert output.outputs[0].token_ids == reference.greedy(tokens, [PICTURES[0]], 5)


def test_templates_without_parts_show_pictures_first(llm, kind):
    talk = [{"role": "user", "content": [{"type": "text", "text": "What?"}, {"type": "image", "image": PICTURES[2]}]}]
    made = llm.chat_prompt(talk, chat_template="{% for m in messages %}{{ m.content }}{% endfor %}")
    around = "<|vision_start|><image><|vision_end|>" if kind.startswith("qwen") else "<image>"
    assert made["prompt"] == f"{around}\nWhat?"


def test_models_of_text_see_no_pictures(tmp_path):
    write_llama(tmp_path / "hf")
    build(tmp_path / "hf", tmp_path / "out")
    llm = LLM(tmp_path / "out")
    with pytest.raises(InvalidArgumentError, match="reads text alone"):
        llm.generate({"prompt_token_ids": [1], "multi_modal_data": {"image": PICTURES[0]}}, GREEDY)
    with pytest.raises(InvalidArgumentError, match="reads text alone"):
        llm.chat([{"role": "user", "content": [{"type": "image", "image": PICTURES[0]}]}])


def test_embeddings_see_no_pictures(tmp_path):
    write_llama(tmp_path / "hf")
    build(tmp_path / "hf", tmp_path / "out", task="embed")
    with pytest.raises(InvalidArgumentError, match="reads text alone"):
        LLM(tmp_path / "out").embed({"prompt_token_ids": [1], "multi_modal_data": {"image": PICTURES[0]}})


def test_drafts_are_of_text_alone(folder):
    with pytest.raises(InvalidArgumentError, match="draft"):
        LLM(folder / "out", speculative_config={"method": "draft_model", "model": folder / "out"})


def test_a_draft_of_text_guesses_behind_pictures(tmp_path, folder, expected):
    write_llama(tmp_path / "hf", vocab_size=folders.VOCABULARY, max_position_embeddings=512)
    build(tmp_path / "hf", tmp_path / "draft")
    speculation = {"method": "draft_model", "model": tmp_path / "draft", "num_speculative_tokens": 2}
    llm = LLM(folder / "out", speculative_config=speculation, max_num_batched_tokens=24)
    assert texts_of(llm) == expected
    assert llm.statistics()["drafted"] > 0


@pytest.mark.parametrize("weights, cache", [("f16", "f16"), ("int8", "int8"), ("int4", "f16")])
def test_narrow_weights_are_near(tmp_path, folder, reference, weights, cache):
    build(folder / "hf", tmp_path / "out", weights=weights, cache=cache, activations="f32")
    llm = LLM(tmp_path / "out")
    params = SamplingParams(temperature=0, max_tokens=1, ignore_eos=True, detokenize=False, prompt_logprobs=0)
    tokens, images = PROMPTS[2]
    logits, ids = reference.logits(tokens, [PICTURES[i] for i in images])
    wanted = (logits - np.log(np.exp(logits).sum(-1, keepdims=True)))[np.arange(len(ids) - 1), ids[1:]]
    [output] = llm.generate(prompt_of(tokens, images), params)
    found = [next(iter(each.values())).logprob for each in output.prompt_logprobs[1:]]
    near = {"f16": 0.02, "int8": 0.1, "int4": 1.5}[weights]
    assert np.abs(np.array(found) - wanted).mean() < near


@pytest.mark.parametrize("strategy, layers", [("full", -1), ("default", [1, -2]), ("full", [0, 2, 4]), ("default", 3)])
def test_features_of_llava(tmp_path, strategy, layers):
    changes = {"vision_feature_layer": layers, "vision_feature_select_strategy": strategy}
    folders.write_llava(tmp_path / "hf", seed=3, **changes)
    build(tmp_path / "hf", tmp_path / "out")
    llm, reference = LLM(tmp_path / "out"), reference_of(tmp_path / "hf")
    tokens, images = PROMPTS[2]
    wanted = reference.greedy(tokens, [PICTURES[i] for i in images], 6)
    params = SamplingParams(temperature=0, max_tokens=6, ignore_eos=True, detokenize=False)
    assert llm.generate(prompt_of(tokens, images), params)[0].outputs[0].token_ids == wanted


def test_newer_names_of_tensors(tmp_path, folder, kind, expected):
    """As Transformers 4.52 and later save them."""
    tensors = load_file(folder / "hf" / "model.safetensors")
    renamed = {}
    for name, values in tensors.items():
        for old, new in (
            ("language_model.model.", "model.language_model."),
            ("language_model.lm_head.", "lm_head."),
            ("vision_tower.vision_model.", "model.vision_tower."),
            ("multi_modal_projector.", "model.multi_modal_projector."),
            ("visual.", "model.visual."),
            ("model.", "model.language_model."),
        ):
            if name.startswith(old):
                name = new + name.removeprefix(old)
                break
        renamed[name] = values
    WRITERS[kind](tmp_path / "hf")
    config = json.loads((tmp_path / "hf" / "config.json").read_text())
    if kind.startswith("qwen"):  # with the text's fields apart
        text = {name: config.pop(name) for name in folders.TEXT if name not in ("model_type", "rope_theta")}
        scaling = {"rope_type": "default", "rope_theta": config.pop("rope_theta")} | config.pop("rope_scaling")
        scaling.pop("type")
        config["text_config"] = {**text, "model_type": f"{kind}_text", "rope_parameters": scaling}
    (tmp_path / "hf" / "config.json").write_text(json.dumps(config))
    save_file(renamed, tmp_path / "hf" / "model.safetensors")
    build(tmp_path / "hf", tmp_path / "out")
    assert texts_of(LLM(tmp_path / "out")) == expected


def change(folder, name, **changes):
    path = folder / name
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize(
    "kind, name, changes, what",
    [
        ("llava", "config.json", {"vision_feature_layer": 9}, "vision_feature_layer"),
        ("llava", "config.json", {"vision_feature_layer": 0}, "vision_feature_layer"),
        ("llava", "config.json", {"vision_feature_layer": [True]}, "vision_feature_layer"),
        ("llava", "config.json", {"vision_feature_select_strategy": "some"}, "vision_feature_select_strategy"),
        ("siglip", "config.json", {"vision_feature_select_strategy": "default"}, "SigLIP has no row of a class"),
        ("llava", "config.json", {"image_token_index": 10**6}, "image_token"),
        ("llava", "config.json", {"vision_config": {**folders.CLIP, "model_type": "dino"}}, "'dino' is not supported"),
        ("llava", "config.json", {"vision_config": {**folders.CLIP, "num_channels": 4}}, "num_channels"),
        ("llava", "config.json", {"vision_config": {**folders.CLIP, "patch_size": 40}}, "image_size"),
        ("llava", "config.json", {"vision_config": 3}, "vision_config"),
        ("llava", "config.json", {"text_config": {**folders.TEXT, "model_type": "gpt2"}}, "'gpt2'"),
        ("llava", "config.json", {"projector_hidden_act": "odd"}, "'odd'"),
        ("llava", "preprocessor_config.json", {"crop_size": {"height": 24, "width": 24}}, "24 x 24"),
        ("llava", "preprocessor_config.json", {"size": {"height": -1, "width": 2}}, "height"),
        ("llava", "preprocessor_config.json", {"do_convert_rgb": False}, "do_convert_rgb"),
        ("llava", "preprocessor_config.json", {"image_std": [0.1, 0, 1]}, "image_std"),
        ("llava", "preprocessor_config.json", {"resample": 9}, "resample"),
        ("qwen2_vl", "config.json", {"rope_scaling": {"type": "mrope", "mrope_section": [2, 3]}}, "mrope_section"),
        ("qwen2_vl", "config.json", {"rope_scaling": {"type": "mrope", "mrope_section": "x"}}, "mrope_section"),
        ("qwen2_vl", "config.json", {"vision_config": {**folders.QWEN2_VISION, "hidden_size": 32}}, "hidden_size"),
        ("qwen2_vl", "config.json", {"vision_config": {**folders.QWEN2_VISION, "num_heads": 5}}, "num_heads"),
        ("qwen2_5_vl", "config.json", {"vision_config": {**folders.QWEN2_5_VISION, "window_size": 7}}, "window_size"),
        ("qwen2_vl", "preprocessor_config.json", {"merge_size": 3}, "merge_size"),
        ("qwen2_vl", "preprocessor_config.json", {"max_pixels": 10}, "max_pixels"),
        ("qwen2_vl", "preprocessor_config.json", {"do_resize": False}, "do_resize"),
    ],
)
def test_folders_that_are_wrong(tmp_path, kind, name, changes, what):
    WRITERS[kind](tmp_path / "hf")
    change(tmp_path / "hf", name, **changes)
    if what == "24 x 24":
        build(tmp_path / "hf", tmp_path / "out")
        with pytest.raises(InvalidArgumentError, match=what):
            LLM(tmp_path / "out").generate(prompt_of(*PROMPTS[0]), GREEDY)
        return
    with pytest.raises((InvalidModelError, UnsupportedError), match=what):
        build(tmp_path / "hf", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_tensors_that_are_wrong(tmp_path, kind):
    WRITERS[kind](tmp_path / "hf")
    path = tmp_path / "hf" / "model.safetensors"
    tensors = load_file(path)
    prefix = "visual.blocks.0." if kind.startswith("qwen") else "vision_tower.vision_model.encoder.layers.0."
    save_file({**tensors, f"{prefix}extra.weight": np.zeros(3, np.float32)}, path)
    with pytest.raises(UnsupportedError, match="extra.weight"):
        build(tmp_path / "hf", tmp_path / "out")
    first = next(name for name in tensors if name.startswith(prefix))
    save_file({name: values for name, values in tensors.items() if name != first}, path)
    with pytest.raises(InvalidModelError, match=first):
        build(tmp_path / "hf", tmp_path / "out")


def test_embeddings_are_not_of_pictures(tmp_path, kind):
    WRITERS[kind](tmp_path / "hf")
    with pytest.raises(UnsupportedError, match="task='generate'"):
        build(tmp_path / "hf", tmp_path / "out", task="embed")


ANY = [None, -1, 10**20, 1e300, 1.5, True, "x", [], ["a"], {}, {"b": "x"}]


def test_descriptions_that_are_wrong(folder):
    path = folder / "out" / "llm.json"
    good = json.loads(path.read_text())
    try:
        for name in good["vision"]:
            for value in ANY:
                path.write_text(json.dumps({**good, "vision": {**good["vision"], name: value}}))
                try:
                    LLM(folder / "out")
                except CorruptEngineError as error:
                    assert "llm.json" in str(error)
        for name in good["vision"]["processor"]:
            for value in ANY:
                processor = {**good["vision"]["processor"], name: value}
                path.write_text(json.dumps({**good, "vision": {**good["vision"], "processor": processor}}))
                try:
                    LLM(folder / "out").generate(prompt_of(*PROMPTS[0]), GREEDY)
                except (CorruptEngineError, InvalidArgumentError):
                    pass
        path.write_text(json.dumps({**good, "vision": "x"}))
        with pytest.raises(CorruptEngineError, match="vision"):
            LLM(folder / "out")
    finally:
        path.write_text(json.dumps(good))


def test_a_tower_that_is_another_models(tmp_path, folder):
    write_llama(tmp_path / "hf")
    build(tmp_path / "hf", tmp_path / "out")
    vision = json.loads((folder / "out" / "llm.json").read_text())["vision"]
    change(tmp_path / "out", "llm.json", vision={**vision, "image_token_id": 3, "placeholder_ids": [3]})
    (tmp_path / "out" / "encoder.engine").write_bytes((folder / "out" / "encoder.engine").read_bytes())
    with pytest.raises(CorruptEngineError, match="do not read pictures together"):
        LLM(tmp_path / "out")


def test_rows_that_are_not_finite_end_their_request(tmp_path, kind):
    WRITERS[kind](tmp_path / "hf")
    path = tmp_path / "hf" / "model.safetensors"
    tensors = load_file(path)
    name = next(each for each in tensors if each.endswith(("patch_embed.proj.weight", "patch_embedding.weight")))
    tensors[name] = np.full_like(tensors[name], 1e38)
    save_file(tensors, path)
    build(tmp_path / "hf", tmp_path / "out", verify=False)
    llm = LLM(tmp_path / "out")
    with pytest.raises(camshaft.Error, match="NaN or an infinity"):
        llm.generate(prompt_of(*PROMPTS[0]), GREEDY)
    assert texts_of(llm, prompts=[PROMPTS[1]])
