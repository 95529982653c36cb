#!/usr/bin/env python3
"""What a second GPU gains, on one and on two of them in rounds that alternate:
- link: bytes a second of all-reduces and all-gathers between the two.
- layer: decoder layers of Llama 3 8B's sizes in fp16 over a prompt, whole and in two ranks: "gather" cuts every product by
  its outputs, as `camshaft llm build --tensor-parallel-size` does, "reduce" every other one by its inputs.
- llm: the same layers as a language model, built by camshaft.llm.build: a prompt of as many tokens, and tokens after it one
  by one; in two ranks as threads and as processes.
- batch: camshaft.parallel.run() of ResNet-50 in fp16, one batch on one GPU, shared out between two, and twice as many
  images on two. Needs PyTorch, which makes the model.
Weights are random. Set NCCL_DEBUG=INFO to see how the GPUs are linked.

usage: parallel_gpu.py [--parts link,layer,llm,batch] [--tokens 4096] [--layers 2] [--batch 128] [--rounds 5] [--seconds 0.5]
                       [--tuning-seconds 20] [--folder build/parallel-gpu] [--small] [--json FILE]
"""

import argparse
import json
import statistics
import sys
import threading
import time
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
for built in ROOT.glob("build/*/python"):
    sys.path.append(str(built))

import camshaft
import numpy as np

BEGIN = time.perf_counter()
SIZES = {"width": 4096, "inner": 14336, "heads": 32, "kv_heads": 8, "head": 128}
SMALL = {"width": 64, "inner": 96, "heads": 4, "kv_heads": 2, "head": 16}


def say(*words):
    print(f"[{time.perf_counter() - BEGIN:6.1f} s]", *words, flush=True)


class Ranks:
    """Contexts of engines that run at the same time, each on a thread of its own."""

    def __init__(self, engines):
        ends = camshaft.Communicator.local(len(engines)) if len(engines) > 1 else [None]
        self.contexts = [engine.create_context() for engine in engines]
        for context, end in zip(self.contexts, ends):
            if end is not None:
                context.set_communicator(end)

    def run(self, inputs, count):
        """Seconds of the slowest rank for `count` runs, and the outputs of each."""
        barrier, seconds, outputs, errors = threading.Barrier(len(self.contexts)), [], {}, []

        def work(rank, context):
            try:
                barrier.wait()
                start = time.perf_counter()
                for _ in range(count):
                    results = context.run(inputs)
                seconds.append(time.perf_counter() - start)
                outputs[rank] = {name: np.from_dlpack(x).copy() for name, x in results.items()}
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=each) for each in enumerate(self.contexts)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        return max(seconds), [outputs[rank] for rank in sorted(outputs)]


def best_of(cases, options):
    """The least seconds of a call of each case, in rounds that alternate: {name: call(count) -> seconds}."""
    counts = {}
    for name, call in cases.items():
        call(3)
        counts[name] = max(1, round(options.seconds / max(call(3) / 3, 1e-6)))
    best = {name: [] for name in cases}
    for _ in range(options.rounds):
        for name, call in cases.items():
            best[name].append(call(counts[name]) / counts[name])
    return {name: min(times) for name, times in best.items()}, {n: statistics.median(t) for n, t in best.items()}


def build(net, device, options):
    limits = {"max_operations": 1e16, "max_memory": 6e10}
    return camshaft.build(net, device=device, verify=False, fp16=True, tuning_seconds=options.tuning_seconds, **limits)


# ---- the link


def link_network(kind, size, chain):
    """`chain` collectives of `size` bytes that each rank brings, one behind the other."""
    net = camshaft.Network(f"{kind} of {size} bytes")
    x = net.input("x", np.float16, (1,))
    rows = size // 2 // 1024
    y = net.Expand(x, [rows, 1024])
    ends = []
    for _ in range(chain):
        if kind == "AllReduce":
            y = net.domain("camshaft").AllReduce(y, group_size=2)
        else:
            gathered = net.domain("camshaft").AllGather(y, group_size=2, axis=0)
            ends.append(net.Slice(gathered, [0, 0], [1, 1], [0, 1]))
    if kind == "AllReduce":
        ends.append(net.Slice(y, [0, 0], [1, 1], [0, 1]))
    net.output(net.Concat(*ends, axis=0) if len(ends) > 1 else ends[0], "y")
    return net


def measure_link(options, results):
    """By the difference between many collectives and one, so that what is around them is left out."""
    for kind in ("AllReduce", "AllGather"):
        for size in options.link_bytes:
            chains = {
                chain: Ranks([build(link_network(kind, size, chain), f"cuda:{rank}", options) for rank in range(2)])
                for chain in (1, 17)
            }
            inputs = {"x": np.zeros(1, np.float16)}
            best, _ = best_of(
                {chain: lambda n, r=ranks: r.run(inputs, n)[0] for chain, ranks in chains.items()}, options
            )
            seconds = (best[17] - best[1]) / 16
            # Of two ranks an all-reduce sends each half there and back, and an all-gather everything once: `size` either way.
            say(f"{kind:9} {size / 2**20:8.3f} MiB: {seconds * 1e6:8.1f} us, {size / seconds / 1e9:6.1f} GB/s each way")
            results.append({"part": "link", "kind": kind, "bytes": size, "seconds": seconds})


# ---- a decoder's layers


def layer_weights(sizes, seed):
    random = np.random.default_rng(seed)

    def matrix(rows, columns):
        return (random.standard_normal((rows, columns), np.float32) * rows**-0.5).astype(np.float16)

    own, shared = sizes["heads"] * sizes["head"], sizes["kv_heads"] * sizes["head"]
    return {
        "query": matrix(sizes["width"], own),
        "key": matrix(sizes["width"], shared),
        "value": matrix(sizes["width"], shared),
        "output": matrix(own, sizes["width"]),
        "gate": matrix(sizes["width"], sizes["inner"]),
        "up": matrix(sizes["width"], sizes["inner"]),
        "down": matrix(sizes["inner"], sizes["width"]),
    }


def part_of(array, axis, rank, ranks):
    return np.ascontiguousarray(np.split(array, ranks, axis)[rank])


def layer_network(options, weights, mode, rank, ranks):
    """Layers over the rows of a table that token ids name; the mean of each row of the result."""
    sizes, tokens = options.sizes, options.tokens
    net = camshaft.Network(f"layers, rank {rank} of {ranks}, {mode}")
    ids = net.input("ids", np.int64, (1, tokens))
    table = (np.random.default_rng(5).standard_normal((1024, sizes["width"]), np.float32)).astype(np.float16)
    half = np.arange(sizes["head"] // 2, dtype=np.float32)
    angles = np.arange(tokens, dtype=np.float32)[:, None] * 500000.0 ** (-half / len(half))
    cos, sin = np.cos(angles).astype(np.float16), np.sin(angles).astype(np.float16)
    positions = np.arange(tokens, dtype=np.int64)[None]
    ones = np.ones(sizes["width"], np.float16)
    own = {name: weights[name] if ranks == 1 else part_of(weights[name], 1, rank, ranks) for name in weights}
    if mode == "reduce":
        for name in ("output", "down"):
            own[name] = part_of(weights[name], 0, rank, ranks)

    def gathered(x):
        return net.domain("camshaft").AllGather(x, group_size=ranks, axis=2) if mode == "gather" and ranks > 1 else x

    def reduced(x):
        if mode == "reduce":
            return net.domain("camshaft").AllReduce(x, group_size=ranks)
        return gathered(x)

    def rotated(x, heads):
        return net.RotaryEmbedding(x, cos, sin, positions, num_heads=heads)

    heads, kv_heads = sizes["heads"] // ranks, sizes["kv_heads"] // ranks
    x = net.Gather(table, ids)
    for _ in range(options.layers):
        y = net.RMSNormalization(x, ones, epsilon=1e-5)
        query, key = rotated(net.MatMul(y, own["query"]), heads), rotated(net.MatMul(y, own["key"]), kv_heads)
        attended = net.Attention(
            query, key, net.MatMul(y, own["value"]), is_causal=1, q_num_heads=heads, kv_num_heads=kv_heads
        )
        if isinstance(attended, (tuple, list)):
            attended = attended[0]
        x = x + reduced(net.MatMul(gathered(attended), own["output"]))
        y = net.RMSNormalization(x, ones, epsilon=1e-5)
        gate = net.MatMul(y, own["gate"])
        y = gate * net.Sigmoid(gate) * net.MatMul(y, own["up"])
        x = x + reduced(net.MatMul(gathered(y), own["down"]))
    net.output(net.ReduceMean(x, [2], keepdims=0), "y")
    return net


def measure_layers(options, results):
    weights = layer_weights(options.sizes, 1)
    say("weights made")
    cases = {}
    for mode, ranks in (("whole", 1), ("gather", 2), ("reduce", 2)):
        engines = [
            build(layer_network(options, weights, mode, rank, ranks), f"cuda:{rank}", options) for rank in range(ranks)
        ]
        cases[mode] = Ranks(engines)
        say(f"layers, {mode}: built")
    inputs = {"ids": np.random.default_rng(2).integers(0, 1024, (1, options.tokens))}
    wanted = cases["whole"].run(inputs, 3)[1][0]["y"].astype(np.float32)
    for mode in ("gather", "reduce"):
        for rank, outputs in enumerate(cases[mode].run(inputs, 3)[1]):
            difference = np.abs(outputs["y"].astype(np.float32) - wanted).max() / np.abs(wanted).max()
            say(f"layers, {mode}, rank {rank}: differs by {difference:.1e} of the largest")
            if not difference < 3e-2:
                raise AssertionError(f"{mode}: {outputs['y']} instead of {wanted}")
    calls = {mode: lambda n, c=case: c.run(inputs, n)[0] for mode, case in cases.items()}
    best, median = best_of(calls, options)
    for mode in ("whole", "gather", "reduce"):
        ratio = best["whole"] / best[mode]
        say(
            f"layer of {options.tokens} tokens, {mode:6}: {best[mode] / options.layers * 1e3:7.3f} ms (median "
            f"{median[mode] / options.layers * 1e3:.3f}), {ratio:.3f} times the speed of one GPU"
        )
        results.append({"part": "layer", "mode": mode, "seconds": best[mode] / options.layers, "ratio": ratio})


# ---- a language model


def write_model(folder, sizes, layers, longest):
    from safetensors.numpy import save_file

    made = layer_weights(sizes, 7)
    names = {"query": "self_attn.q", "key": "self_attn.k", "value": "self_attn.v", "output": "self_attn.o"}
    names |= {name: f"mlp.{name}" for name in ("gate", "up", "down")}
    ones, width, vocabulary = np.ones(sizes["width"], np.float16), sizes["width"], 512
    tensors = {"model.norm.weight": ones}
    random = np.random.default_rng(8)
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        tensors[name] = (random.standard_normal((vocabulary, width), np.float32) * width**-0.5).astype(np.float16)
    for layer in range(layers):
        place = f"model.layers.{layer}."
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors[place + name + ".weight"] = ones
        for name, module in names.items():
            tensors[f"{place}{module}_proj.weight"] = np.ascontiguousarray(made[name].T)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "model.safetensors")
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": width,
        "intermediate_size": sizes["inner"],
        "num_hidden_layers": layers,
        "num_attention_heads": sizes["heads"],
        "num_key_value_heads": sizes["kv_heads"],
        "head_dim": sizes["head"],
        "vocab_size": vocabulary,
        "max_position_embeddings": longest,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
    }
    (folder / "config.json").write_text(json.dumps(config))


def measure_llm(options, results):
    import camshaft.llm
    from camshaft.llm import LLM, SamplingParams

    new = 8 if options.small else 64
    folder = options.folder / "hf"
    write_model(folder, options.sizes, options.layers, options.tokens + new + 64)
    say("language model written")
    cases = {}
    for name, ranks, more, backends in (
        ("one", 1, {}, (None,)),
        ("gather", 2, {}, ("threads", "mp")),
        ("reduce", 2, {"row_parallel": True}, ("threads", "mp")),
    ):
        target = options.folder / f"llm-{name}"
        made = {"device": "cuda", "verify": False, "weights": "f16", "max_operations": 1e16, "max_memory": 6e10}
        camshaft.llm.build(
            folder, target, tensor_parallel_size=ranks, tuning_seconds=options.tuning_seconds, **made, **more
        )
        say(f"language model, {name}: built")
        for backend in backends:
            cases[f"{name} {backend or ''}".strip()] = LLM(
                target,
                max_num_seqs=4,
                max_num_batched_tokens=options.tokens,
                num_blocks=4 * (options.tokens + new) // 16 + 8,
                enable_prefix_caching=False,
                distributed_executor_backend=backend,
            )
    prompt = np.random.default_rng(9).integers(2, 512, options.tokens).tolist()

    def seconds_of(llm, tokens, count):
        params = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True, detokenize=False)
        start = time.perf_counter()
        for _ in range(count):
            [output] = llm.generate([prompt], params)
            if output.outputs[0].finish_reason == "error":
                raise AssertionError(output.outputs[0].error)
        return time.perf_counter() - start

    first, _ = best_of({n: lambda c, m=llm: seconds_of(m, 1, c) for n, llm in cases.items()}, options)
    whole, _ = best_of({n: lambda c, m=llm: seconds_of(m, new + 1, c) for n, llm in cases.items()}, options)
    for name in cases:
        step = (whole[name] - first[name]) / new
        ratios = first["one"] / first[name], (whole["one"] - first["one"]) / new / step
        say(
            f"language model, {name:15}: prompt {first[name] * 1e3:8.3f} ms ({ratios[0]:.3f} times one GPU), "
            f"a token {step * 1e6:8.1f} us ({ratios[1]:.3f})"
        )
        results.append({"part": "llm", "case": name, "prompt": first[name], "token": step, "ratios": ratios})


# ---- a batch


def resnet50(folder):
    sys.path.insert(0, str(ROOT / "bench"))
    import gpu_networks
    import torch

    folder.mkdir(parents=True, exist_ok=True)
    with torch.no_grad():
        gpu_networks.export("resnet50", gpu_networks.make("resnet50").cpu(), str(folder / "resnet50.onnx"))
    return folder / "resnet50.onnx"


def measure_batch(options, results):
    import camshaft.parallel

    batch = options.batch
    model = resnet50(options.folder)
    say("ResNet-50 exported")
    info = camshaft.build(model, device="cpu", verify=False, tuning="heuristic").inputs[0]
    image = [224 if size < 0 else size for size in info.shape[1:]]
    profiles = [{info.name: ([1, *image], [count, *image], [batch, *image])} for count in (batch // 2, batch)]
    path = options.folder / "resnet50.engine"
    camshaft.build(
        model, path, device="cuda", verify=False, fp16=True, profiles=profiles, tuning_seconds=options.tuning_seconds
    )
    say("ResNet-50 built")
    engines = [camshaft.Engine(path, device=f"cuda:{number}") for number in range(2)]
    images = np.random.default_rng(3).standard_normal((2 * batch, *image), np.float32)
    output = engines[0].outputs[0].name

    def run(engines, count, rows):
        start = time.perf_counter()
        for _ in range(count):
            outputs = camshaft.parallel.run(engines, {info.name: images[:rows]})
        return time.perf_counter() - start, outputs[output]

    one, two = run(engines[:1], 2, batch)[1], run(engines, 2, batch)[1]
    say(f"ResNet-50: on two GPUs differs by {np.abs(one - two).max() / np.abs(one).max():.1e} of the largest")
    cases = {
        "one": lambda n: run(engines[:1], n, batch)[0],
        "other": lambda n: run(engines[1:], n, batch)[0],
        "two": lambda n: run(engines, n, batch)[0],
        "twice": lambda n: run(engines, n, 2 * batch)[0],
    }
    # What the device alone takes, whatever copying from the host does.
    for name, rows in (("half, device", batch // 2), ("whole, device", batch)):
        context = engines[0].create_context()
        cases[name] = device_case(context, info.name, images[:rows])
    best, median = best_of(cases, options)
    for name, seconds in best.items():
        count = 2 * batch if name == "twice" else batch // 2 if name.startswith("half") else batch
        say(
            f"ResNet-50, {name:13}: {seconds * 1e3:7.3f} ms (median {median[name] * 1e3:.3f}), {count / seconds:8.0f} images/s"
        )
    split, twice = best["one"] / best["two"], 2 * best["one"] / best["twice"]
    say(f"ResNet-50: batch {batch} shared out {split:.3f} times the speed of one GPU, batch {2 * batch} {twice:.3f}")
    results.append({"part": "batch", "seconds": best, "split": split, "twice": twice})


def device_case(context, name, images):
    """Runs over images that are on the device."""
    try:
        import torch

        there = torch.from_numpy(images).to("cuda:0")
    except Exception:
        traceback.print_exc()
        there = images

    def call(count):
        start = time.perf_counter()
        for _ in range(count):
            context.run({name: there})
        return time.perf_counter() - start

    return call


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default="link,layer,llm,batch")
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each round")
    parser.add_argument("--tuning-seconds", type=float, default=20)
    parser.add_argument("--folder", type=Path, default=ROOT / "build/parallel-gpu")
    parser.add_argument("--small", action="store_true", help="sizes at which the emulated GPU runs it")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    options.sizes = SMALL if options.small else SIZES
    options.link_bytes = [2**14] if options.small else [2**14, 2**18, 2**22, 2**25, 2**26]
    results, failed = [], False
    for part in options.parts.split(","):
        try:
            {"link": measure_link, "layer": measure_layers, "llm": measure_llm, "batch": measure_batch}[part](
                options, results
            )
        except Exception:
            traceback.print_exc()
            failed = True
        if options.json:
            options.json.write_text(json.dumps(results, indent=1))
    sys.exit(failed)


if __name__ == "__main__":
    main()
