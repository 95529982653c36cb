#!/usr/bin/env python3
"""A decoder of Llama's kind with seeded weights in a GGUF file (Q4_0; the table, which is the head, Q8_0), built by
`camshaft llm build`, beside llama.cpp on the same file and onnxruntime-genai on the same weights: seconds of one decoded
token and of a prompt, minima of rounds that alternate, and how far the logits are apart.

usage: llm_rivals.py --rivals-python PYTHON [--rivals llama.cpp,onnxruntime-genai] [--threads 1,2] [--rounds 7]
                     [--prompt 512] [--past 128] [--folder FOLDER]
                     [--layers 16 --width 2048 --inner 8192 --heads 32 --kv-heads 8 --vocabulary 32000]

PYTHON is an interpreter with what rivals need: pip install gguf, then llama-cpp-python, and onnxruntime-genai and onnx. What
was made in FOLDER is taken again.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [os.environ.get("CAMSHAFT_PYTHON_MODULE", str(ROOT / "build/release/python")), str(ROOT / "scripts")]

import numpy as np

RIVALS = ("llama.cpp", "onnxruntime-genai")


def numbers(text):
    return [int(x) for x in text.split(",")]


def parser():
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--rivals-python", required=True)
    made.add_argument("--rivals", type=lambda text: text.split(","), default=list(RIVALS))
    made.add_argument("--threads", type=numbers, default=[1, 2])
    made.add_argument("--rounds", type=int, default=7)
    made.add_argument("--prompt", type=int, default=512)
    made.add_argument("--past", type=int, default=128)
    made.add_argument("--folder", type=Path)
    for name, size in (
        ("layers", 16),
        ("width", 2048),
        ("inner", 8192),
        ("heads", 32),
        ("kv-heads", 8),
        ("vocabulary", 32000),
    ):
        made.add_argument(f"--{name}", type=int, default=size)
    made.add_argument("--worker", help=argparse.SUPPRESS)
    made.add_argument("--worker-threads", type=int, help=argparse.SUPPRESS)
    return made


# --- the model ---


def tensors(options):
    """Names of Hugging Face's, and seeded values."""
    random = np.random.default_rng(0)
    size = options.width // options.heads

    def matrix(*shape):
        return random.standard_normal(shape, np.float32) * np.float32(0.02)

    yield "model.embed_tokens.weight", matrix(options.vocabulary, options.width)
    yield "model.norm.weight", np.ones(options.width, np.float32)
    for i in range(options.layers):
        layer = f"model.layers.{i}."
        for name in ("q", "k", "v"):
            heads = options.heads if name == "q" else options.kv_heads
            yield f"{layer}self_attn.{name}_proj.weight", matrix(heads * size, options.width)
        yield f"{layer}self_attn.o_proj.weight", matrix(options.width, options.heads * size)
        for name in ("gate", "up"):
            yield f"{layer}mlp.{name}_proj.weight", matrix(options.inner, options.width)
        yield f"{layer}mlp.down_proj.weight", matrix(options.width, options.inner)
        for name in ("input", "post_attention"):
            yield f"{layer}{name}_layernorm.weight", np.ones(options.width, np.float32)


def write_gguf(options, path):
    """In llama.cpp's own types and order of heads' rows. Runs in the interpreter that has gguf."""
    import gguf

    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(8192)
    writer.add_embedding_length(options.width)
    writer.add_block_count(options.layers)
    writer.add_feed_forward_length(options.inner)
    writer.add_head_count(options.heads)
    writer.add_head_count_kv(options.kv_heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(500000.0)
    writer.add_rope_dimension_count(options.width // options.heads)
    writer.add_vocab_size(options.vocabulary)
    writer.add_tokenizer_model("no_vocab")
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, options.layers)
    for name, x in tensors(options):
        if ".q_proj" in name or ".k_proj" in name:
            heads = options.heads if ".q_proj" in name else options.kv_heads
            x = x.reshape(heads, 2, -1, options.width).swapaxes(1, 2).reshape(x.shape)
        kinds = gguf.GGMLQuantizationType
        kind = kinds.F32 if x.ndim == 1 else kinds.Q8_0 if "embed" in name else kinds.Q4_0
        stored = names.get_name(name, try_suffixes=(".weight",))
        data = x if kind == kinds.F32 else gguf.quants.quantize(x, kind)
        writer.add_tensor(stored, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


# --- workers: each reads lines, does what they say, and answers ---


def prompt_of(options, count):
    return (np.arange(count) * 31 % (options.vocabulary - 10) + 5).astype(np.int32)


class Camshaft:
    def __init__(self, options, folder, threads):
        import camshaft

        engine = camshaft.Engine(str(folder / "int4" / "model.engine"))
        self.context = engine.create_context(threads=threads)
        self.options, self.engine, self.threads = options, engine, threads
        caches = {x.name: x for x in engine.inputs if "_cache." in x.name}
        shape = list(next(iter(caches.values())).shape)
        self.block = shape[1]
        self.blocks = -(-(options.past + options.prompt) // self.block) + 1
        for name, value in caches.items():
            made = np.zeros([self.blocks, *shape[1:]], np.float16 if value.dtype == "f16" else np.float32)
            self.context.set_input(name, made)
            self.context.bind_output(name.replace("_cache.", "_cache_out."), made)

    def step(self, count, past):
        def i32(x):
            return np.array(x, np.int32)

        inputs = {
            "input_ids": prompt_of(self.options, count),
            "positions": i32(np.arange(past, past + count)),
            "cumulative_sequence_length": i32([0, count]),
            "past_seqlens": i32([past]),
            "block_table": i32(np.arange(self.blocks - 1) + 1)[None],
            "logits_indices": i32([count - 1]),
        }
        for name, value in inputs.items():
            self.context.set_input(name, value)
        begin = clock(self.threads)
        self.context.run()
        return clock(self.threads) - begin

    def logits(self):
        return np.from_dlpack(self.context.output("logits")).reshape(-1)


class LlamaCpp:
    def __init__(self, options, folder, threads):
        import ctypes

        import llama_cpp

        self.lib, self.options, self.threads, self.ctypes = llama_cpp, options, threads, ctypes
        quiet = llama_cpp.llama_log_callback(lambda level, text, data: None)
        llama_cpp.llama_log_set(quiet, ctypes.c_void_p(0))
        self.quiet = quiet
        llama_cpp.llama_backend_init()
        self.model = llama_cpp.llama_model_load_from_file(
            str(folder / "q4_0.gguf").encode(), llama_cpp.llama_model_default_params()
        )
        parameters = llama_cpp.llama_context_default_params()
        parameters.n_ctx = longest(options)
        parameters.n_batch = parameters.n_ubatch = max(512, options.prompt)
        parameters.n_threads = parameters.n_threads_batch = threads
        self.context = llama_cpp.llama_init_from_model(self.model, parameters)

    def step(self, count, past):
        memory = self.lib.llama_get_memory(self.context)
        self.lib.llama_memory_seq_rm(memory, 0, past, -1)
        tokens = (self.lib.llama_token * count)(*[int(x) for x in prompt_of(self.options, count)])
        begin = clock(self.threads)
        if self.lib.llama_decode(self.context, self.lib.llama_batch_get_one(tokens, count)) != 0:
            raise RuntimeError("llama_decode failed")
        self.lib.llama_get_logits_ith(self.context, -1)  # which waits
        return clock(self.threads) - begin

    def logits(self):
        got = self.lib.llama_get_logits_ith(self.context, -1)
        return np.ctypeslib.as_array(got, (self.options.vocabulary,)).copy()


class OnnxRuntimeGenai:
    """With a cache in place. Its threads spin between steps, and wait where more than one is asked for."""

    def __init__(self, options, folder, threads):
        import onnxruntime_genai

        config = onnxruntime_genai.Config(str(folder / "genai"))
        session = {"model": {"decoder": {"session_options": {"intra_op_num_threads": threads}}}}
        config.overlay(json.dumps(session))
        self.options, self.threads, self.model = options, threads, onnxruntime_genai.Model(config)
        parameters = onnxruntime_genai.GeneratorParams(self.model)
        parameters.set_search_options(max_length=longest(options), past_present_share_buffer=True)
        self.generator = onnxruntime_genai.Generator(self.model, parameters)

    def step(self, count, past):
        self.generator.rewind_to(past)
        tokens = prompt_of(self.options, count)
        begin = clock(self.threads)
        self.generator.append_tokens(tokens)
        return clock(self.threads) - begin

    def logits(self):
        return np.array(self.generator.get_logits()).reshape(-1)


def clock(threads):
    """Seconds: of one thread those of the processor, which others on the machine lengthen least."""
    return time.process_time() if threads == 1 else time.perf_counter()


def longest(options):
    return options.past + options.prompt + 64


def work(options):
    kinds = {"camshaft": Camshaft, "llama.cpp": LlamaCpp, "onnxruntime-genai": OnnxRuntimeGenai}
    rival = kinds[options.worker](options, options.folder, options.worker_threads)
    print("ready", flush=True)
    for line in sys.stdin:
        if line.strip() == "logits":
            rival.step(options.prompt, 0)
            np.save(options.folder / f"{options.worker}.npy", rival.logits())
            print("done", flush=True)
            continue
        kind = line.strip()
        if kind == "past":  # what tokens are decoded behind
            print(rival.step(options.past, 0), flush=True)
        elif kind == "prefill":
            print(rival.step(options.prompt, 0), flush=True)
        else:
            print(min(rival.step(1, options.past) for _ in range(8)), flush=True)


class Worker:
    def __init__(self, name, python, arguments, threads):
        command = [python, __file__, *arguments, "--worker", name, "--worker-threads", str(threads)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.read()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("a worker ended")
        return line.strip()

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.read()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def bandwidth(threads):
    import camshaft_cli

    limits = camshaft_cli.camshaft("devices", "--measure", "--threads", threads, "--json").stdout
    return next(device["limits"]["dram_gbs"] for device in json.loads(limits) if "limits" in device)


def main():
    options = parser().parse_args()
    if options.worker == "gguf":
        return write_gguf(options, options.folder / "q4_0.gguf")
    if options.worker == "genai":
        sys.path.insert(0, str(ROOT / "bench/llm"))
        import genai_folder

        return genai_folder.write(options, tensors(options), options.folder / "genai", longest(options))
    if options.worker:
        return work(options)
    with tempfile.TemporaryDirectory() as temporary:
        compare(options, options.folder or Path(temporary))


def compare(options, folder):
    import camshaft.llm

    names = ("prompt", "past", "layers", "width", "inner", "heads", "kv_heads", "vocabulary")
    arguments = [x for name in names for x in (f"--{name.replace('_', '-')}", str(getattr(options, name)))]
    arguments += ["--folder", str(folder), "--rivals-python", options.rivals_python]
    pythons = {"camshaft": sys.executable} | dict.fromkeys(options.rivals, options.rivals_python)
    made = {"gguf": "q4_0.gguf"} | (
        {"genai": "genai/genai_config.json"} if "onnxruntime-genai" in options.rivals else {}
    )
    for worker, name in made.items():
        if not (folder / name).exists():
            subprocess.run([options.rivals_python, __file__, *arguments, "--worker", worker], check=True)
    if not (folder / "int4" / "model.engine").exists():
        camshaft.llm.build(folder / "q4_0.gguf", folder / "int4", verify=False, tuning="heuristic")
    weights = (
        4.5
        / 8
        * options.layers
        * (
            options.width * options.width * 2
            + 2 * options.kv_heads * (options.width // options.heads) * options.width
            + 3 * options.width * options.inner
        )
        + 8.5 / 8 * options.vocabulary * options.width
    )
    print(f"weights that a token reads: {weights / 1e6:.0f} MB, scales in 16 bits")
    for threads in options.threads:
        workers = {name: Worker(name, python, arguments, threads) for name, python in pythons.items()}
        least = {(name, kind): float("inf") for name in workers for kind in ("decode", "prefill")}
        memory = 0.0
        for _ in range(options.rounds):
            memory = max(memory, bandwidth(threads))
            for kind in ("prefill", "past", "decode"):
                for name, worker in workers.items():
                    seconds = float(worker.ask(kind))
                    if kind != "past":
                        least[name, kind] = min(least[name, kind], seconds)
        for name in workers:
            decode, prefill = least[name, "decode"], least[name, "prefill"]
            print(
                f"{threads} threads, {name}: {1 / decode:.2f} tokens/s ({weights / decode / 1e9:.1f} GB/s of "
                f"{memory:.1f}), {options.prompt} tokens in {prefill * 1e3:.0f} ms"
            )
        for worker in workers.values():
            worker.ask("logits")
            worker.close()
        for name in options.rivals:
            ratio = {kind: least[name, kind] / least["camshaft", kind] for kind in ("decode", "prefill")}
            ours, theirs = (np.load(folder / f"{x}.npy") for x in ("camshaft", name))
            apart = np.abs(ours - theirs).max() / np.abs(theirs).max()
            print(
                f"{threads} threads: decoding {ratio['decode']:.2f} times as fast as {name}, a prompt "
                f"{ratio['prefill']:.2f}; logits {apart:.1%} of their scale apart"
            )


if __name__ == "__main__":
    main()
