"""The measurement of bench/compare_gpu: a model built and set up in every mode, and timed in rounds. Needs PyTorch."""

import contextlib
import random
import statistics
import sys
import time

import camshaft_cli

sys.path.insert(0, str(camshaft_cli.BINARY.parent.parent / "python"))
import gpu_bounds
import gpu_modes
import gpu_networks
import torch
import torch._inductor.config
from gpu_modes import Refused


@contextlib.contextmanager
def device():
    """Within it PyTorch does as all measurements have it, in a stream of its own. Gives what the device reaches."""
    if not torch.cuda.is_available():
        sys.exit("compare_gpu: PyTorch sees no GPU")
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    # What is compiled may fold and lay out its weights as constants, as Camshaft does. Set here and not among the options of
    # torch.compile, for the trace that comes before inductor asks for it too.
    torch._inductor.config.freezing = True
    with torch.inference_mode(), torch.cuda.stream(torch.cuda.Stream()):
        yield gpu_bounds.limits() | {"torch": torch.__version__}


def give_memory_back():
    """What the models of another batch took."""
    torch.cuda.empty_cache()


class Case:
    """A model: its module and its ONNX file."""

    def __init__(self, name, folder):
        self.name, self.folder = name, folder
        start = time.perf_counter()
        self.module = gpu_networks.make(name)
        self.model = folder / f"{name}.onnx"
        gpu_networks.export(name, self.module, str(self.model))
        self.export_seconds = time.perf_counter() - start

    def build(self, feed, options):
        """The engine for these shapes, and how many seconds building it took."""
        engine = self.folder / "model.engine"
        shapes = [f"{key}:{'x'.join(map(str, array.shape))}" for key, array in feed.items()]
        words = ["--device", "cuda", "--fp16", "--shapes", *shapes, *options]
        start = time.perf_counter()
        camshaft_cli.camshaft("build", self.model, "-o", engine, *words)
        return engine, time.perf_counter() - start


def reference(case, feed):
    """Outputs of PyTorch in fp32, without TF32."""
    module, arrays = gpu_modes.on_gpu(case.name, case.module, feed, torch.float32)
    return [output.contiguous() for output in gpu_modes.as_tuple(module(*arrays))]


def error(got, want):
    """The largest difference as a part of an output's scale, of all outputs."""
    if [g.shape for g in got] != [w.shape for w in want]:
        return float("inf")
    worst = max(((g - w).abs().max() / w.abs().max()).item() for g, w in zip(got, want))
    return worst if worst == worst else float("inf")


def set_up(case, feed, want, arguments):
    """({mode: ready to run}, {mode: what is known of it or why it is left out})"""
    modes, figures = {}, {}
    for mode in ("camshaft", *arguments.modes):
        try:
            if mode == "camshaft":
                engine, seconds = case.build(feed, arguments.build)
                modes[mode] = gpu_modes.Camshaft(engine, feed, [w.shape for w in want])
                figures[mode] = {"setup_s": seconds}
            else:
                modes[mode] = gpu_modes.Torch(mode, case.name, case.module, feed)
                figures[mode] = {"setup_s": modes[mode].setup_seconds}
            figures[mode]["error"] = error(modes[mode].results(), want)
        except Exception as failure:
            modes.pop(mode, None)
            words = str(failure).strip().splitlines() or [type(failure).__name__]
            figures[mode] = {"skipped": words[-1][:300]}
            print(f"{case.name}: {mode} is left out: {words[-1][:300]}", file=sys.stderr, flush=True)
    return modes, figures


def measure(case, batch, arguments, limits):
    """The figures of a model at a batch, as they go into compare_gpu.json."""
    feed = gpu_networks.inputs(case.name, batch)
    module, arrays = gpu_modes.on_gpu(case.name, case.module, feed)
    bound = gpu_bounds.bound(module, arrays, limits)
    del module, arrays
    want = reference(case, feed)
    give_memory_back()
    torch._dynamo.reset()  # what was compiled for another batch would make this one's sizes dynamic
    modes, figures = set_up(case, feed, want, arguments)
    if "camshaft" not in modes:
        raise Refused(figures["camshaft"]["skipped"])
    order = random.Random(arguments.seed)
    rounds = gpu_modes.Rounds(modes, arguments.round_ms)
    for _ in range(arguments.rounds):
        rounds.round(order.sample(sorted(modes), len(modes)))
    for name, times in rounds.times.items():
        figures[name] |= {
            "ms": min(times),
            "median_ms": statistics.median(times),
            "high_ms": statistics.quantiles(times, n=10)[-1] if len(times) > 1 else times[0],
            "host_us": gpu_modes.host_microseconds(modes[name].run),
            "kernels": gpu_modes.count_kernels(modes[name].run) if arguments.kernels else None,
        }
    return {"modes": figures, "bound": bound, "limits": limits, "rounds": arguments.rounds, "date": time.strftime("%F")}
