#!/usr/bin/env python3
"""Products with weights of few bits on a GPU beside those with weights in fp16: chains of MatMulNBits and of MatMul, as
engines whose launches are recorded, in rounds that alternate. With PyTorch, beside its own products of both kinds and a
copy of the device's memory.

usage: weight_only_gpu.py [--sizes 896x4864,4096x4096,4096x11008] [--rows 1,16,256] [--bits 4] [--block 32] [--rounds 3]
                          [--megabytes 240] [--tuning-seconds 60] [--zero-points] [--f32] [--json FILE]
"""

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "scripts")]

import numpy as np
from camshaft_cli import camshaft

import onnx
from onnx import TensorProto, helper, numpy_helper

try:
    import torch
except ImportError:
    torch = None


class Chain:
    """Products depth -> columns -> depth ..., so many that their weights take more than the caches of a GPU."""

    def __init__(self, depth, columns, rows, options):
        self.depth, self.columns, self.rows, self.options = depth, columns, rows, options
        self.random = np.random.default_rng(depth + columns)

    def sizes(self, count):
        pair = [(self.depth, self.columns), (self.columns, self.depth)]
        return [pair[i % 2] for i in range(count)]

    def count(self, bits):
        """Even, so that a chain ends as it begins."""
        most = 4 if self.rows >= 64 else 512
        wanted = self.options.megabytes * 8e6 / bits / (self.depth * self.columns)
        return min(most, 2 * max(1, round(wanted / 2)))

    def save(self, path, nodes, initializers):
        dtype = TensorProto.FLOAT if self.options.f32 else TensorProto.FLOAT16
        x, y = (helper.make_tensor_value_info(n, dtype, [self.rows, self.depth]) for n in ("x0", f"x{len(nodes)}"))
        graph = helper.make_graph(nodes, "chain", [x], [y], initializers)
        domains = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        onnx.save(helper.make_model(graph, opset_imports=domains, ir_version=10), path)

    def narrow(self, path):
        """Returns the number of products and the bytes of codes, scales and zero points of one, on average."""
        o = self.options
        count, nodes, initializers, size = self.count(o.bits), [], [], 0
        scale_type = np.float32 if o.f32 else np.float16
        for i, (depth, columns) in enumerate(self.sizes(count)):
            blocks = -(-depth // o.block)
            data = np.frombuffer(self.random.bytes(columns * blocks * o.block * o.bits // 8), np.uint8)
            spread = np.sqrt(depth * (4**o.bits - 1) / 12)
            scales = (self.random.uniform(0.8, 1.2, (columns, blocks)) / spread).astype(scale_type)
            names = [f"w{i}", f"s{i}"]
            initializers.append(numpy_helper.from_array(data.reshape(columns, blocks, o.block * o.bits // 8), names[0]))
            initializers.append(numpy_helper.from_array(scales, names[1]))
            size += data.nbytes + scales.nbytes
            if o.zero_points:
                zeros = self.random.integers(0, 256, (columns, (blocks * o.bits + 7) // 8), dtype=np.uint8)
                initializers.append(numpy_helper.from_array(zeros, f"z{i}"))
                names.append(f"z{i}")
                size += columns * blocks  # a byte each, as kernels read them
            sizes = {"N": columns, "K": depth, "bits": o.bits, "block_size": o.block}
            nodes.append(
                helper.make_node("MatMulNBits", [f"x{i}", *names], [f"x{i + 1}"], domain="com.microsoft", **sizes)
            )
        self.save(path, nodes, initializers)
        return count, size / count

    def floats(self, path):
        count, nodes, initializers = self.count(16), [], []
        for i, (depth, columns) in enumerate(self.sizes(count)):
            # Signs, and magnitudes about 1 / sqrt(depth): what comes out is as large as what goes in.
            about = np.array(1 / np.sqrt(depth), np.float16).view(np.uint16) & 0xFFF0
            bits = np.frombuffer(self.random.bytes(2 * depth * columns), np.uint16) & 0x800F | about
            weights = bits.view(np.float16).reshape(depth, columns)
            if self.options.f32:
                weights = weights.astype(np.float32)
            initializers.append(numpy_helper.from_array(weights, f"w{i}"))
            nodes.append(helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"x{i + 1}"]))
        self.save(path, nodes, initializers)
        return count


def tactics_of(engine):
    layers = json.loads(camshaft("inspect", engine, "--json").stdout)["layers"]
    return sorted({layer["tactic"] for layer in layers if "matmul" in layer["op"]})


def milliseconds(engine):
    done = camshaft("bench", engine, "--no-data-transfers", "--json", "--duration", "0.4", "--warmup", "0.1")
    return json.loads(done.stdout)["latency_ms"]["min"]


def of_graph(launches):
    """Microseconds of each of these calls of PyTorch, recorded as one graph."""
    for launch in launches[:2]:
        launch()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for launch in launches:
            launch()
    times = []
    for _ in range(20):
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        first.record()
        graph.replay()
        last.record()
        torch.cuda.synchronize()
        times.append(first.elapsed_time(last) * 1e3 / len(launches))
    return min(times[5:])


def pytorch(depth, columns, rows):
    """Microseconds of its product in fp16, and of that with weights of 4 bits in blocks of 32, in bf16."""
    x = torch.randn(rows, depth, device="cuda", dtype=torch.float16)
    count = max(2, int(3e8 / (2 * depth * columns)))
    weights = [torch.randn(columns, depth, device="cuda", dtype=torch.float16) for _ in range(count)]
    told = {"pytorch_fp16_us": of_graph([lambda w=w: torch.nn.functional.linear(x, w) for w in weights])}
    del weights
    if columns % 64 == 0 and depth % 64 == 0:
        count = max(2, int(2.4e8 / (depth * columns / 2)))
        codes = torch.randint(0, 256, (columns, depth // 2), device="cuda", dtype=torch.uint8)
        scales = torch.rand(depth // 32, columns, 2, device="cuda", dtype=torch.bfloat16)
        packed = [torch._convert_weight_to_int4pack(codes, 8) for _ in range(count)]
        y = x.bfloat16()
        told["pytorch_int4_us"] = of_graph([lambda w=w: torch._weight_int4pack_mm(y, w, 32, scales) for w in packed])
    return told


def copied():
    """GB/s that a copy of the device's memory reads and writes."""
    a = torch.rand(1 << 28, device="cuda")
    b = torch.empty_like(a)
    return 2 * a.nbytes / of_graph([lambda: torch.neg(a, out=b)] * 2) / 1e3  # a kernel: copies may be an engine's


def main():
    made = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    made.add_argument("--sizes", default="896x4864,4096x4096,4096x11008")
    made.add_argument("--rows", default="1,16,256")
    made.add_argument("--bits", type=int, default=4)
    made.add_argument("--block", type=int, default=32)
    made.add_argument("--rounds", type=int, default=3)
    made.add_argument("--megabytes", type=float, default=240, help="of weights in a chain")
    made.add_argument("--tuning-seconds", type=float, default=60)
    made.add_argument("--zero-points", action="store_true")
    made.add_argument("--f32", action="store_true", help="activations and scales of f32")
    made.add_argument("--json", type=Path, help="where to write all figures")
    options = made.parse_args()
    results = []
    for size in options.sizes.split(","):
        depth, columns = map(int, size.split("x"))
        for rows in map(int, options.rows.split(",")):
            chain = Chain(depth, columns, rows, options)
            with tempfile.TemporaryDirectory() as folder:
                path, counts, engines = Path(folder) / "chain.onnx", {}, {}
                result = {
                    "depth": depth,
                    "columns": columns,
                    "rows": rows,
                    "bits": options.bits,
                    "block": options.block,
                }
                for kind in ("narrow", "floats"):
                    if kind == "narrow":
                        counts[kind], weight_bytes = chain.narrow(path)
                    else:
                        counts[kind] = chain.floats(path)
                    engines[kind] = Path(folder) / f"{kind}.engine"
                    camshaft(
                        "build",
                        path,
                        "-o",
                        engines[kind],
                        "--device",
                        "cuda",
                        "--no-verify",
                        "--tuning-seconds",
                        options.tuning_seconds,
                        *([] if options.f32 else ["--fp16"]),
                    )
                    result[f"{kind}_tactics"] = tactics_of(engines[kind])
                times, memory = {kind: [] for kind in engines}, []
                for _ in range(options.rounds):
                    for kind, engine in engines.items():
                        times[kind].append(milliseconds(engine) * 1e3 / counts[kind])
                    if torch:
                        memory.append(copied())
                result.update({f"{kind}_us": min(of) for kind, of in times.items()})
                result["narrow_gbs"] = weight_bytes / result["narrow_us"] / 1e3
                result["tflops"] = 2e-6 * rows * depth * columns / result["narrow_us"]
                if torch:
                    result["copy_gbs"] = statistics.median(memory)
                    result["of_copy"] = result["narrow_gbs"] / result["copy_gbs"]
                    result.update(pytorch(depth, columns, rows))
                results.append(result)
                print(json.dumps(result), flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
