"""What bench/compare_gpu lets compete: PyTorch in several modes, and Camshaft. Each is set up once with inputs and outputs on
the device; then a call puts one inference into the current stream."""

import time

import torch
from gpu_models import MODELS


class Refused(Exception):
    """A mode that cannot run a model; the text says why."""


def as_tuple(outputs):
    return tuple(outputs) if isinstance(outputs, (tuple, list)) else (outputs,)


def on_gpu(name, module, feed, dtype=torch.float16):
    """(module, inputs) on the GPU: images channels-last, in `dtype`; the module itself is not changed."""
    import copy

    module = copy.deepcopy(module).cuda().to(dtype)
    arrays = [array.cuda() for array in feed.values()]
    arrays = [array.to(dtype) if array.is_floating_point() else array for array in arrays]
    if MODELS[name].edge:
        module = module.to(memory_format=torch.channels_last)
        arrays = [array.contiguous(memory_format=torch.channels_last) for array in arrays]
    return module, arrays


class Torch:
    """Half precision throughout, channels-last images."""

    def __init__(self, mode, name, module, feed):
        start = time.perf_counter()
        module, self.inputs = on_gpu(name, module, feed)
        self.module = module
        if mode == "graph":
            self.capture()
        else:
            self.module = module if mode == "eager" else torch.compile(module, mode=mode)
            self.run = self.call
        for _ in range(3):
            self.run()
        torch.cuda.synchronize()
        self.setup_seconds = time.perf_counter() - start

    def call(self):
        self.outputs = as_tuple(self.module(*self.inputs))

    def capture(self):
        for _ in range(3):
            self.call()
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.call()
        self.run = self.graph.replay

    def results(self):
        self.run()
        torch.cuda.synchronize()
        return [output.float().clone() for output in self.outputs]


class Camshaft:
    """An engine in the current stream: inputs as the model has them (images in fp32, rows of pixels), outputs in tensors of
    PyTorch's."""

    def __init__(self, engine, feed, shapes):
        import camshaft

        self.engine = camshaft.Engine(engine)
        self.context = self.engine.create_context()
        self.inputs = {name: array.cuda().contiguous() for name, array in feed.items()}
        for name, array in self.inputs.items():
            self.context.set_input(name, array)
        self.outputs = []
        for info, shape in zip(self.engine.outputs, shapes):
            self.outputs.append(
                torch.empty(shape, dtype={"f32": torch.float32, "f16": torch.float16}[info.dtype]).cuda()
            )
            self.context.bind_output(info.name, self.outputs[-1])
        for _ in range(3):
            self.run()
        self.context.synchronize()

    def run(self):
        self.context.enqueue(torch.cuda.current_stream().cuda_stream)

    def results(self):
        self.run()
        self.context.synchronize()
        return [output.float().clone() for output in self.outputs]


def count_kernels(run):
    """Kernels of one inference, as CUPTI sees them; copies and fills do not count. None where it sees none."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        run()
        torch.cuda.synchronize()
    names = [event.name for event in profiler.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    return sum(not name.startswith(("Memcpy", "Memset")) for name in names) or None


def host_microseconds(run, count=20):
    """What putting an inference into the stream takes the host, where the stream takes it at once."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(count):
        run()
    seconds = time.perf_counter() - start
    torch.cuda.synchronize()
    return seconds / count * 1e6


class Rounds:
    """Rounds of several modes in turn, timed by events in the current stream."""

    def __init__(self, modes, round_ms):
        self.modes, self.times = modes, {name: [] for name in modes}
        self.counts = {}
        for name, mode in modes.items():
            once = self.time(mode, 3)
            self.counts[name] = max(3, min(2000, round(round_ms / once)))

    @staticmethod
    def time(mode, count):
        """Milliseconds of an inference, the mean of `count` enqueued one after another."""
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        mode.run()
        begin.record()
        for _ in range(count):
            mode.run()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / count

    def round(self, order):
        for name in order:
            self.times[name].append(self.time(self.modes[name], self.counts[name]))
