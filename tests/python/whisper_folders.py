"""Small Whispers with random weights as Hugging Face folders, and sounds for them."""

import json
import wave

import numpy as np
from safetensors.numpy import save_file

RATE = 16000
# Of one second: 50 states.
WHISPER = {
    "model_type": "whisper",
    "architectures": ["WhisperForConditionalGeneration"],
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 64,
    "num_mel_bins": 20,
    "max_source_positions": 50,
    "max_target_positions": 40,
    "activation_function": "gelu",
    "scale_embedding": False,
    "tie_word_embeddings": True,
    "decoder_start_token_id": 257,
    "bos_token_id": 256,
    "eos_token_id": 256,
    "pad_token_id": 256,
}
SPECIAL = [
    "<|endoftext|>",
    "<|startoftranscript|>",
    "<|en|>",
    "<|de|>",
    "<|translate|>",
    "<|transcribe|>",
    "<|startofprev|>",
    "<|nospeech|>",
    "<|notimestamps|>",
]
FIRST_TIME = 256 + len(SPECIAL)
TIMES = 51
VOCABULARY = FIRST_TIME + TIMES
GENERATION = {
    "decoder_start_token_id": 257,
    "eos_token_id": 256,
    "pad_token_id": 256,
    "bos_token_id": 256,
    "is_multilingual": True,
    "lang_to_id": {"<|en|>": 258, "<|de|>": 259},
    "task_to_id": {"translate": 260, "transcribe": 261},
    "prev_sot_token_id": 262,
    "no_timestamps_token_id": 264,
    "suppress_tokens": [3, 17, 257, 258, 259, 260, 261, 262, 263],
    "begin_suppress_tokens": [220, 256],
    "max_initial_timestamp_index": 10,
    "max_length": 40,
}


def whisper_tensors(config, random):
    """The weights, in fp32."""
    width, vocabulary = config["d_model"], config["vocab_size"]
    shapes = {
        "model.encoder.conv1.weight": (width, config["num_mel_bins"], 3),
        "model.encoder.conv1.bias": (width,),
        "model.encoder.conv2.weight": (width, width, 3),
        "model.encoder.conv2.bias": (width,),
        "model.encoder.embed_positions.weight": (config["max_source_positions"], width),
        "model.decoder.embed_positions.weight": (config["max_target_positions"], width),
        "model.decoder.embed_tokens.weight": (vocabulary, width),
    }
    norms = ["model.encoder.layer_norm", "model.decoder.layer_norm"]
    for part, blocks in (("encoder", ["self_attn"]), ("decoder", ["self_attn", "encoder_attn"])):
        inner = config[f"{part}_ffn_dim"]
        for i in range(config[f"{part}_layers"]):
            of = f"model.{part}.layers.{i}"
            for block in blocks:
                norms.append(f"{of}.{block}_layer_norm")
                for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
                    shapes[f"{of}.{block}.{name}.weight"] = (width, width)
                    if name != "k_proj":
                        shapes[f"{of}.{block}.{name}.bias"] = (width,)
            norms.append(f"{of}.final_layer_norm")
            shapes |= {f"{of}.fc1.weight": (inner, width), f"{of}.fc1.bias": (inner,)}
            shapes |= {f"{of}.fc2.weight": (width, inner), f"{of}.fc2.bias": (width,)}
    made = {}
    for name, shape in shapes.items():
        values = random.standard_normal(shape, np.float32)
        # The head is the table of tokens: where its rows do not lead, texts are of one token.
        scale = 0.5 if "embed_tokens" in name else 6.0 if "embed_positions" in name else 2.5
        made[name] = 0.1 * values if len(shape) == 1 else values * np.float32(scale / np.sqrt(np.prod(shape[1:])))
    for name in norms:
        made[f"{name}.weight"] = 1 + 0.1 * random.standard_normal(width, np.float32)
        made[f"{name}.bias"] = 0.1 * random.standard_normal(width, np.float32)
    return made


def write_whisper(folder, seed=0, tensors=None, generation=None, preprocessor=None, **changes):
    """The folder; `changes` are of the configuration, None leaves a field out. Its tokenizer is of single bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        name: value for name, value in {**WHISPER, "vocab_size": VOCABULARY, **changes}.items() if value is not None
    }
    (folder / "config.json").write_text(json.dumps(config))
    made = whisper_tensors({**WHISPER, "vocab_size": VOCABULARY, **config}, np.random.default_rng(seed))
    save_file(made if tensors is None else tensors, folder / "model.safetensors", {"format": "pt"})
    (folder / "generation_config.json").write_text(json.dumps({**GENERATION, **(generation or {})}))
    features = {
        "feature_extractor_type": "WhisperFeatureExtractor",
        "feature_size": config["num_mel_bins"],
        "sampling_rate": RATE,
        "hop_length": 160,
        "n_fft": 400,
        "chunk_length": config["max_source_positions"] // 50,
        "padding_value": 0.0,
    }
    (folder / "preprocessor_config.json").write_text(json.dumps({**features, **(preprocessor or {})}))
    write_tokenizer(folder)
    return folder


def write_tokenizer(folder):
    import tokenizers

    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    made = tokenizers.Tokenizer(tokenizers.models.BPE({letter: i for i, letter in enumerate(alphabet)}, []))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.add_special_tokens(SPECIAL)
    made.add_tokens([tokenizers.AddedToken(f"<|{0.02 * i:.2f}|>", special=False) for i in range(TIMES)])
    assert made.get_vocab_size() == VOCABULARY
    made.save(str(folder / "tokenizer.json"))


def sound(seconds, seed=0):
    """f32 [samples]: tones that come and go, in noise."""
    random = np.random.default_rng(seed)
    times = np.arange(int(seconds * RATE)) / RATE
    made = 0.02 * random.standard_normal(len(times))
    for frequency, speed in random.uniform([100, 1], [4000, 9], (5, 2)):
        made += 0.15 * np.sin(2 * np.pi * frequency * times) * np.sin(np.pi * speed * times) ** 2
    return made.astype(np.float32)


def write_wav(path, samples, rate=RATE, width=2, channels=1):
    """samples: from -1 to 1, [samples] or [samples, channels]."""
    full = 2 ** (8 * width - 1)
    values = np.clip(np.rint(np.asarray(samples, np.float64) * full), -full, full - 1).astype(np.int64)
    if width == 1:
        data = (values + 128).astype(np.uint8).tobytes()
    else:
        data = values.astype("<i8")[..., None].view(np.uint8)[..., :width].tobytes()
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(data)
    return path
