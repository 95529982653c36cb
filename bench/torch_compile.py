#!/usr/bin/env python3
"""torch.compile(backend="camshaft") beside eager PyTorch and inductor: on one thread of the CPU in fp32 (max-autotune,
freezing, C++ wrapper), on a GPU in fp16 (reduce-overhead, freezing).

    torch_compile.py                         every model at batch 1 and 8
    torch_compile.py resnet18 bert           those whose names have one of the words
    torch_compile.py --batches 1 --seconds 5 --json FILE
    torch_compile.py --device cuda --batches 1 32
    torch_compile.py --device cuda --jobs 6  processes, which compile beside each other and measure in turn

The three run in one process on the same tensors, in turn: one call each, on a GPU as many as take 20 ms. A time is the
least of all turns. Prints Camshaft's speed as a multiple of each other's, the geometric mean and the slowest, and the
time to the first result of each. With --jobs calls are timed once all of these models are compiled, one model at a
time; first results come later than alone, and inductor may run on the device while Camshaft measures what it chooses."""

import argparse
import concurrent.futures
import contextlib
import fcntl
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import time
import warnings

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/python/pytorch"))

# Architectures at the sizes that they are used in: (function of torchvision, timm or transformers, what it takes).
VISION = """resnet18 resnet50 mobilenet_v2 mobilenet_v3_large efficientnet_b0 densenet121 shufflenet_v2_x1_0
regnet_y_800mf convnext_tiny vit_b_16 swin_t""".split()
TIMM = "vit_tiny_patch16_224 mixer_s32_224 poolformer_s12 mobilenetv4_conv_small ghostnet_100 repvgg_a0".split()
WORDS = {
    "bert": ("BertConfig", "BertModel", {"num_hidden_layers": 6}),
    "distilbert": ("DistilBertConfig", "DistilBertModel", {}),
    "gpt2": ("GPT2Config", "GPT2LMHeadModel", {"n_layer": 6}),
}
MODELS = [*VISION, *TIMM, *WORDS]


def made(name, batch):
    import torch

    torch.manual_seed(0)
    if name in WORDS:
        import architectures
        import transformers

        config, model, options = WORDS[name]
        module = getattr(transformers, model)(getattr(transformers, config)(**options))
        plain = architectures._NoCache if name == "gpt2" else architectures._Plain
        return plain(module).eval(), (torch.randint(0, 1000, (batch, 128)),)
    from torchvision_models import imported

    images = torch.randn(batch, 3, 224, 224)
    if name in VISION:
        return getattr(imported().models, name)(weights=None).eval(), (images,)
    imported()
    import timm

    return timm.create_model(name, pretrained=False).eval(), (images,)


def rival(module, device, autotune):
    """The module compiled by inductor at its best settings."""
    import torch

    # It changes what PyTorch captures for any backend.
    torch._inductor.config.freezing = True
    torch._inductor.config.cpp_wrapper = device == "cpu"
    best = "max-autotune" if device == "cpu" else "reduce-overhead"
    return torch.compile(module, mode=best if autotune else None, dynamic=False)


def turn(run, given, device, calls):
    """Seconds of a call."""
    import torch

    if device == "cpu":
        begun = time.perf_counter()
        run(*given)
        return time.perf_counter() - begun
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(calls):
        run(*given)
    torch.cuda.synchronize()
    return (time.perf_counter() - begun) / calls


@contextlib.contextmanager
def alone(options):
    """While no other process of --jobs is in such a block."""
    if options.turns is None:
        yield
        return
    with open(options.turns / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def await_others(options):
    """Until all processes of --jobs have compiled, which takes the host's cores: calls take these, too."""
    if options.turns is None:
        return
    (options.turns / f"compiled-{options.one}").touch()
    while len(list(options.turns.glob("compiled-*"))) < int((options.turns / "many").read_text()):
        time.sleep(0.1)


def measure(name, batch, options):
    """{"eager", "inductor", "camshaft"}: least seconds of a call; "first": seconds to the first result."""
    import camshaft.torch  # noqa: F401  # which registers the backend
    import torch

    warnings.filterwarnings("ignore")
    device = options.device
    torch.set_num_threads(1)
    module, given = made(name, batch)
    if device != "cpu":
        module, given = module.half().to(device), tuple(move(tensor, device) for tensor in given)
    first, runs = {}, {"eager": module}
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        expected = module(*given)
        chosen = {"cache_dir": options.keep or folder, "tuning_seconds": options.tuning_seconds}
        chosen = {name: value for name, value in chosen.items() if value is not None}
        compiled = {
            "camshaft": lambda: torch.compile(module, backend="camshaft", dynamic=False, options=chosen),
            "inductor": lambda: rival(module, device, not options.no_autotune),
        }
        for label, make in compiled.items():
            torch.compiler.reset()
            with alone(options) if label == "camshaft" else contextlib.nullcontext():  # it measures what it chooses
                begun = time.perf_counter()
                run = make()
                actual = run(*given).clone()
                first[label] = time.perf_counter() - begun
            torch._inductor.config.freezing = False
            error = float((actual - expected).abs().max() / expected.abs().max())
            if error > (1e-3 if device == "cpu" else 2e-2):
                raise SystemExit(f"{name} at batch {batch}: {label} differs by {error:.1e} of the scale")
            runs[label] = run
        # Compiled callables live on after the next reset(): each has its own code.
        times = {label: [] for label in runs}
        await_others(options)
        with alone(options):
            calls = {label: calls_in_a_turn(run, given, device) for label, run in runs.items()}
            end = time.perf_counter() + options.seconds
            while time.perf_counter() < end or len(times["eager"]) < 5:
                for label, run in runs.items():
                    times[label].append(turn(run, given, device, calls[label]))
            torch.compiler.reset()  # still alone: others are timed next
            begun = time.perf_counter()
            torch.compile(module, backend="camshaft", dynamic=False, options=chosen)(*given)
            first["camshaft from the cache"] = time.perf_counter() - begun
    return {**{label: min(found) for label, found in times.items()}, "first": first, "turns": len(times["eager"])}


def calls_in_a_turn(run, given, device):
    for _ in range(3):  # a graph of PyTorch's is recorded in the second call
        turn(run, given, device, 1)
    return max(1, int(0.02 / turn(run, given, device, 1)))


def move(tensor, device):
    return (tensor.half() if tensor.is_floating_point() else tensor).to(device)


def processes_of(some):
    """Each of the models with what became of its process: all run at once."""
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(len(some)) as pool:
        turns = pathlib.Path(folder)
        (turns / "many").write_text(str(len(some)))

        def process_of(one):
            label = "@".join(map(str, one))
            more = ["--turns", folder] if len(some) > 1 else []
            done = subprocess.run(
                [sys.executable, __file__, "--one", label, *sys.argv[1:], *more], capture_output=True, text=True
            )
            (turns / f"compiled-{label}").touch()  # also where it failed
            return done

        yield from zip(some, pool.map(process_of, some))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--seconds", type=float, default=20, help="of the turns of each model")
    parser.add_argument("--json", type=pathlib.Path, help="where to keep what was measured")
    parser.add_argument(
        "--no-autotune", action="store_true", help="inductor's default mode, which compiles in less time"
    )
    parser.add_argument("--device", default="cpu", help="cpu (the default) or cuda")
    parser.add_argument("--tuning-seconds", type=float, help="of each of Camshaft's builds (default: its own)")
    parser.add_argument(
        "--keep", metavar="FOLDER", help="the cache of Camshaft's engines, which stays (default: a new one)"
    )
    parser.add_argument("--jobs", type=int, default=1, help="models that compile at once; calls are timed alone")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--turns", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.jobs < 1:
        parser.error("--jobs is at least 1")
    if options.one:
        name, batch = options.one.split("@")
        print(json.dumps(measure(name, int(batch), options)))
        return
    found = {}
    chosen = [
        (name, batch)
        for name in MODELS
        if any(word in name for word in options.words or [""])
        for batch in options.batches
    ]
    for wave in range(0, len(chosen), options.jobs):
        for (name, batch), done in processes_of(chosen[wave : wave + options.jobs]):
            lines = done.stdout.strip().splitlines()
            if done.returncode or not lines:
                print(f"{name}@{batch}: {(done.stderr.strip().splitlines() or ['no result'])[-1]}", flush=True)
                continue
            row = found[f"{name}@{batch}"] = json.loads(lines[-1])
            print(
                f"{name}@{batch}: {row['camshaft'] * 1e3:.3f} ms; × inductor {row['inductor'] / row['camshaft']:.2f}, "
                f"× eager {row['eager'] / row['camshaft']:.2f}; first {row['first']['camshaft']:.1f} s, from the cache "
                f"{row['first']['camshaft from the cache']:.1f} s, inductor {row['first']['inductor']:.1f} s",
                flush=True,
            )
            if options.json:
                options.json.write_text(json.dumps(found, indent=1) + "\n")
    for other in ("inductor", "eager"):
        ratios = {label: row[other] / row["camshaft"] for label, row in found.items()}
        if ratios:
            mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
            slowest = min(ratios, key=ratios.get)
            print(f"× {other}: geometric mean {mean:.2f} of {len(ratios)}, slowest {slowest} {ratios[slowest]:.2f}")


if __name__ == "__main__":
    main()
