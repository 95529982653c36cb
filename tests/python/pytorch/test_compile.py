"""torch.compile(backend="camshaft"): results are PyTorch's, whatever changes, and what stays with it is said."""

import logging
import os
import subprocess
import sys
import textwrap
import threading
import warnings

import pytest
from conftest import HERE

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("camshaft", reason="the Python module was not built: no Python headers")
import camshaft.torch  # noqa: E402
from camshaft.torch import _graph  # noqa: E402

QUICK = {"optimization_level": 0}


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.last = torch.nn.Linear(8, 5)
        self.register_buffer("scale", torch.linspace(1, 2, 5))

    def forward(self, x):
        x = torch.nn.functional.silu(self.norm(self.conv(x)))
        return self.last(x.mean((2, 3))) * self.scale


@pytest.fixture
def net():
    return Net().eval()


@pytest.fixture
def engines(monkeypatch):
    """The regions that are made, as they are."""
    made, built = [], _graph._built

    def counted(*args, **kwargs):
        made.append(built(*args, **kwargs))
        return made[-1]

    monkeypatch.setattr(_graph, "_built", counted)
    return made


def compiled(module, dynamic=False, **options):
    return torch.compile(module, backend="camshaft", dynamic=dynamic, options={**QUICK, **options})


def same(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("looks_into_modules", [True, False])
def test_parameters_are_constants(engines, looks_into_modules):
    """Those that were captured as inputs, and those of the module itself, as while inductor freezes."""
    import torch._inductor.config

    net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8)).eval()
    torch._dynamo.reset()
    x = torch.randn(2, 3, 8, 8)
    with torch.no_grad(), torch._inductor.config.patch(freezing=not looks_into_modules):
        model = compiled(net)
        same(model(x), net(x))
        assert [sum(spec.bound for spec in engine.input_specs) for engine in engines] == [1]
        net[0].bias.add_(1)
        same(model(x), net(x))
    torch._dynamo.reset()


def test_a_network_is_one_engine(net, engines):
    x = torch.randn(2, 3, 16, 16)
    with torch.no_grad():
        same(compiled(net)(x), net(x))
    assert len(engines) == 1 and engines[0].engine.outputs[0].shape == (2, 5)


def test_sizes_that_change_are_one_engine(net, engines):
    run = compiled(net, dynamic=True)
    with torch.no_grad():
        for shape in [(2, 3, 16, 14), (5, 3, 20, 12), (4, 3, 7, 9)]:
            x = torch.randn(shape)
            same(run(x), net(x))
    assert len(engines) == 1


def test_sizes_are_computed_with(engines):
    def function(x, y):
        rows = x.reshape(x.shape[0] * 2, -1, 4)
        return rows + y[: x.shape[1] // 8].sum(), torch.arange(x.shape[0]), x.shape[0] + 1, torch.cat([x, x[:, 1:]], 1)

    run = compiled(function, dynamic=True)
    for rows, columns in [(2, 16), (3, 24), (7, 40)]:
        x, y = torch.randn(rows, columns), torch.randn(columns)
        same(run(x, y), function(x, y))
    assert len(engines) == 1


@pytest.mark.parametrize("fast", [True, False])
def test_memory_in_another_order(net, engines, fast):
    x = torch.randn(2, 3, 16, 12).to(memory_format=torch.channels_last)
    model = net.to(memory_format=torch.channels_last) if fast else net
    with torch.no_grad():
        same(compiled(model)(x), model(x))

    def turned(x):
        return (x.transpose(1, 3) * 2, x.permute(0, 2, 3, 1) + 1)

    for given in (x, x[:, :, ::2], x[:, 1:], x.expand(2, 3, 16, 12)):
        actual, expected = compiled(turned)(given), turned(given)
        same(actual, expected)
        torch.compiler.reset()
    assert all(region is not None for region in engines)


def test_weights_that_change_are_seen(net, engines, caplog):
    run, x = compiled(net), torch.randn(1, 3, 8, 8)
    with torch.no_grad():
        same(run(x), net(x))
        net.scale.mul_(3)
        same(run(x), net(x))
        net.load_state_dict({name: value + 0.125 for name, value in net.state_dict().items()}, strict=False)
        same(run(x), net(x))
        net.last.weight.data = torch.randn(5, 8)
        same(run(x), net(x))
        net.last = torch.nn.Linear(8, 5)
        same(run(x), net(x))
        many = len(engines)
        same(run(x), net(x))
    assert len(engines) == many
    assert "have changed since they were compiled" in caplog.text


def test_in_place_and_views_of_arguments():
    def function(x, y):
        x.add_(1)
        y[1:].mul_(2)
        return x.view(-1), y[0], x

    x, y = torch.randn(3, 4), torch.randn(3, 4)
    a, b, c, d = x.clone(), y.clone(), x.clone(), y.clone()
    same(compiled(function)(a, b), function(c, d))
    same((a, b), (c, d))


@pytest.mark.parametrize("dynamic", [False, True])
def test_results_that_share_memory(engines, dynamic):
    """What is written into one of them is seen in the others, also behind a break of the graph."""

    def function(x):
        y = x.exp() + x.shape[0]
        views = y.view(-1), y.t(), y[1:, ::2], y.unsqueeze(0).expand(2, -1, -1), y.split(1)[0]
        torch._dynamo.graph_break()
        y.mul_(3)
        return y, *views, x + 1

    run = compiled(function, dynamic, min_block_size=1)
    for rows in 3, 4:
        x = torch.randn(rows, 5)
        actual, expected = run(x), function(x)
        same(actual, expected)
        assert [result.stride() for result in actual] == [result.stride() for result in expected]
        actual[0].zero_()
        assert not any(view.any() for view in actual[1:-1])
    assert engines


def test_buffers_that_a_call_writes():
    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros(1))

        def forward(self, x):
            self.calls += 1
            return x * self.calls

    ours, theirs, x = Counting().eval(), Counting().eval(), torch.randn(3)
    run = compiled(ours)
    for _ in range(3):
        same(run(x), theirs(x))
    same(ours.calls, theirs.calls)


def test_what_stays_with_pytorch_is_said(engines, caplog):
    def function(x):
        y = torch.relu(x) * 2
        y = torch.fft.fft(y).real
        return torch.tanh(y + 1) * 3

    x = torch.randn(4, 8)
    with caplog.at_level(logging.INFO, logger="camshaft.torch"):
        same(compiled(function, min_block_size=2)(x), function(x))
    assert "operators stay with PyTorch" in caplog.text and "aten._fft_r2c.default (" in caplog.text
    assert len([region for region in engines if region is not None]) == 2


def test_other_devices_stay_with_pytorch(engines, caplog):
    """Tensors that have no numbers, of arguments and of parameters; what is mixed is PyTorch's error."""
    net, x = torch.nn.Linear(4, 4).eval(), torch.randn(2, 4)
    far = torch.nn.Linear(4, 4, device="meta").eval()
    with torch.no_grad():
        found = compiled(far, min_block_size=1)(x.to("meta"))
        assert found.device.type == "meta" and found.shape == (2, 4)
        assert "a tensor on the device meta" in caplog.text and not any(engines)
        with pytest.raises(RuntimeError, match="same device|different devices"):
            compiled(net, min_block_size=1)(x.to("meta"))
        # Another device is another graph.
        run = compiled(net, min_block_size=1)
        same(run(x), net(x))
        assert run(torch.nn.Parameter(x)).device.type == "cpu"


def test_parameters_without_elements():
    class Empty(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.none = torch.nn.Parameter(torch.empty(0, 3))

        def forward(self, x):
            return torch.cat([self.none, x]) * 2

    x = torch.randn(2, 3)
    with torch.no_grad():
        same(compiled(Empty().eval(), min_block_size=1)(x), x * 2)


def test_small_parts_stay(engines, caplog):
    def function(x):
        return torch.fft.fft(torch.relu(x)).real + 1

    x = torch.randn(4, 8)
    with caplog.at_level(logging.INFO, logger="camshaft.torch"):
        same(compiled(function, min_block_size=5)(x), function(x))
    assert not engines and "min_block_size" in caplog.text


def test_operators_that_are_to_stay(net, engines):
    x = torch.randn(1, 3, 8, 8)
    for named in ({"aten.convolution.default"}, ["torch.ops.aten.convolution"], {torch.ops.aten.convolution.default}):
        with torch.no_grad():
            same(compiled(net, torch_executed_ops=named, min_block_size=1)(x), net(x))
        assert not any("Conv" in str(region.engine.layers()) for region in engines)
        torch.compiler.reset()
    with pytest.raises(Exception, match="stay with PyTorch: aten.convolution.default"), torch.no_grad():
        compiled(net, torch_executed_ops={"aten.convolution"}, require_full_compilation=True)(x)


def test_a_build_that_fails(net, monkeypatch, caplog):
    def fail(*args, **kwargs):
        raise camshaft.UnsupportedError("of the test")

    monkeypatch.setattr(_graph, "build", fail)
    x = torch.randn(1, 3, 8, 8)
    with torch.no_grad():
        same(compiled(net)(x), net(x))
        assert "its build failed: of the test" in caplog.text
        torch.compiler.reset()
        with pytest.raises(Exception, match="of the test"):
            compiled(net, pass_through_build_failures=True)(x)


@pytest.mark.parametrize("layer", [torch.nn.Dropout(0.5), torch.nn.BatchNorm2d(3)])
def test_training_is_refused(layer):
    with pytest.raises(Exception, match=r"in training mode: call model.eval\(\)"):
        compiled(layer.train())(torch.randn(2, 3, 4, 4))


def test_gradients_are_warned_of(net):
    x = torch.randn(1, 3, 8, 8, requires_grad=True)
    with pytest.warns(UserWarning, match="results have no gradient"):
        y = compiled(net)(x)
    assert not y.requires_grad
    torch.compiler.reset()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("error", UserWarning)
        same(compiled(net)(x), net(x))


def test_options_are_checked():
    for options, words in [
        ({"min_block_sise": 1}, "no option 'min_block_sise'; did you mean 'min_block_size'"),
        ({"enabled_precisions": {"fp17"}}, "'fp17' is no precision"),
        ({"optimization_level": 9}, "from 0 to 5, not 9"),
        ({"min_block_size": 0}, "from 1 on, not 0"),
    ]:
        with pytest.raises(Exception, match=words):
            torch.compile(lambda x: x + 1, backend="camshaft", options=options)(torch.ones(2))
        torch.compiler.reset()


def test_options_of_torch_tensorrt_are_taken(net):
    x = torch.randn(1, 3, 8, 8)
    options = {"enabled_precisions": {torch.float16}, "truncate_long_and_double": True, "workspace_size": 1 << 20}
    with torch.no_grad():
        actual, expected = compiled(net, debug=True, use_python_runtime=False, **options)(x), net(x)
    torch.testing.assert_close(actual, expected, rtol=0.02, atol=0.02)


def test_doubles_may_be_cut(engines):
    def function(x):
        return (x * 2 + 1).sin()

    x = torch.randn(5, dtype=torch.float64)
    y = compiled(function, truncate_long_and_double=True)(x)
    assert y.dtype == torch.float64 and 0 < (y - function(x)).abs().max() < 1e-6
    torch.compiler.reset()
    torch.testing.assert_close(compiled(function)(x), function(x), rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int32, torch.int16, torch.int8, torch.uint8])
def test_types_of_elements(engines, dtype):
    def function(x, y):
        return torch.maximum(x, y) + x * 2 - y, (x > y) | (y == 3)

    x, y = (torch.randint(0, 30, (3, 5)).to(dtype) for _ in range(2))
    torch.testing.assert_close(compiled(function)(x, y), function(x, y), rtol=1e-2, atol=1e-2)
    assert engines[0] is not None


def test_tensors_without_elements_and_scalars():
    def function(x, y):
        return torch.cat([x, y]).sum(0), x.max() if x.numel() else y.sum(), x * y.shape[0]

    for rows in (0, 3):
        x, y = torch.randn(rows, 4), torch.randn(2, 4)
        same(compiled(function)(x, y), function(x, y))
    same(compiled(torch.exp)(torch.tensor(1.5)), torch.tensor(1.5).exp())


def test_special_numbers():
    x = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e38, -1e-38])

    def function(x):
        return x.abs(), x.clamp(-1, 1), torch.where(x > 0, x, -x), x.isnan(), x.isinf(), torch.maximum(x, x.flip(0))

    same(compiled(function)(x), function(x))


def test_numbers_that_change():
    def function(x, scale):
        return torch.relu(x) * scale + x.sum()

    run = compiled(function, dynamic=None)
    for scale in (1.5, 2.5, 3.5, 2, 3, 4):
        x = torch.randn(3, 4)
        same(run(x, scale), function(x, scale))


def test_sizes_that_the_data_have():
    def function(x):
        return x[x > 0] * 2 + 1

    for captured in (False, True):
        torch.compiler.reset()
        with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=captured):
            run = compiled(function)
            for _ in range(3):
                x = torch.randn(7)
                same(run(x), function(x))


def test_threads_at_once(net):
    run, x = compiled(net), torch.randn(2, 3, 16, 16)
    with torch.no_grad():
        expected = [net(x * i) for i in range(4)]
        run(x)
        found = [[] for _ in range(4)]

        def work(i):
            with torch.no_grad():
                for _ in range(20):
                    found[i].append(run(x * i))

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    for results, wanted in zip(found, expected):
        assert len(results) == 20
        for result in results:
            same(result, wanted)


def test_results_are_the_callers(net):
    run, x = compiled(net), torch.randn(1, 3, 8, 8)
    with torch.no_grad():
        first = run(x)
        kept = first.clone()
        run(x * 2)
    same(first, kept)


IN_A_PROCESS = """
    import logging, sys
    import torch
    torch.manual_seed(0)
    sys.path.insert(0, {here!r})
    logging.basicConfig(level=logging.INFO, stream=sys.stdout)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)).eval()
    {change}
    with torch.no_grad():
        x = torch.randn(2, 4)
        found = torch.compile(model, backend="camshaft", options={options})(x)
        torch.testing.assert_close(found, model(x))
"""


def in_a_process(folder, change="", **options):
    (folder / "camshaft-0.dist-info").mkdir(exist_ok=True)
    (folder / "camshaft-0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: camshaft\nVersion: 0\n")
    entry = "[torch_dynamo_backends]\ncamshaft = camshaft.torch:backend\n"
    (folder / "camshaft-0.dist-info/entry_points.txt").write_text(entry)
    text = textwrap.dedent(IN_A_PROCESS).format(here=HERE, change=change, options={**QUICK, **options})
    environment = {**os.environ, "PYTHONPATH": str(folder), "CAMSHAFT_TORCH_CACHE": str(folder / "cache")}
    return subprocess.run(
        [sys.executable, "-c", text], env=environment, capture_output=True, text=True, check=True
    ).stdout


def test_engines_are_kept_across_processes(tmp_path):
    """Found by the entry point, without an import."""
    assert "taken from" not in in_a_process(tmp_path)
    assert "taken from" in in_a_process(tmp_path)
    assert "taken from" not in in_a_process(tmp_path, change="model[0].weight.data[0, 0] += 1")
    assert "taken from" not in in_a_process(tmp_path, enabled_precisions=["fp16"])
    assert "taken from" not in in_a_process(tmp_path, cache=False)
    files = sorted((tmp_path / "cache").iterdir())
    assert len(files) == 3 and all(path.suffix == ".engine" for path in files)
    for path in files:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert "is made anew" in in_a_process(tmp_path)
    assert "taken from" in in_a_process(tmp_path)
    for path in files:
        path.unlink()
    (tmp_path / "cache").rmdir()
    (tmp_path / "cache").write_text("not a folder")
    assert "the engine is not kept" in in_a_process(tmp_path)


def test_a_cache_that_goes_away(net, tmp_path, caplog):
    """Deleted between two graphs of one process, also while it is written."""
    import shutil

    x, folder = torch.randn(1, 3, 8, 8), tmp_path / "kept"
    with torch.no_grad():
        for size in (8, 9, 10):
            torch.compiler.reset()
            x = torch.randn(1, 3, size, size)
            same(compiled(net, cache_dir=str(folder))(x), net(x))
            assert len(list(folder.iterdir())) == 1
            shutil.rmtree(folder)
            torch.compiler.reset()
            same(compiled(net, cache_dir=str(folder))(x), net(x))
            shutil.rmtree(folder)
    assert not [record for record in caplog.records if record.name == "camshaft.torch"]


@pytest.mark.parametrize("what", ["_library", "_machine", "torch"])
def test_a_cache_of_another_version_is_not_taken(net, tmp_path, monkeypatch, caplog, what):
    """Nor of another machine, or another PyTorch."""
    from camshaft.torch import _cache

    x = torch.randn(1, 3, 8, 8)

    def taken():
        torch.compiler.reset()
        caplog.clear()
        with torch.no_grad(), caplog.at_level(logging.INFO, logger="camshaft.torch"):
            same(compiled(net, cache_dir=str(tmp_path))(x), net(x))
        return "taken from" in caplog.text

    assert not taken() and taken()
    if what == "torch":
        monkeypatch.setattr(torch, "__version__", "2.0.0")
    else:
        monkeypatch.setattr(_cache, what, lambda: "another")
    assert not taken() and taken()
    assert len(list(tmp_path.iterdir())) == 2


def test_several_processes_write_one_cache(tmp_path):
    in_a_process(tmp_path, cache=False)  # which makes the entry point
    text = textwrap.dedent(IN_A_PROCESS).format(here=HERE, change="", options=QUICK)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "CAMSHAFT_TORCH_CACHE": str(tmp_path / "cache")}
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", text], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        for _ in range(3)
    ]
    said = [worker.communicate(timeout=300)[0].decode() for worker in workers]
    assert all(worker.returncode == 0 for worker in workers), said
    assert not any("anew" in text or "not kept" in text for text in said), said
    assert len(list((tmp_path / "cache").iterdir())) == 1, "no temporary files are left"
    assert "taken from" in in_a_process(tmp_path)


@pytest.mark.parametrize("what", ["slice", "roll", "pad", "masked", "numbers"])
def test_weightless_engines_with_numbers_of_converters(tmp_path, what):
    """Where slices begin and the like are constants of the network, and no module's."""
    functions = {
        "slice": lambda x: x[:, 1:3] + 1,
        "roll": lambda x: torch.roll(x, 1, 1) + 1,
        "pad": lambda x: torch.nn.functional.pad(x, [0, 3], value=2.0),
        "masked": lambda x: x.masked_fill(x > 0.5, -1.0).cumsum(1),
        "numbers": lambda x: torch.nn.functional.hardswish(torch.erf(x) * 0.25),
    }

    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = torch.nn.Linear(6, 8), torch.nn.Parameter(torch.randn(8, 9))

        def forward(self, x):
            return functions[what](self.first(x)).sum(1, keepdim=True) + functions[what](
                x @ self.first.weight.T @ self.last
            )

    for _ in range(2):
        module, x = Module().eval(), torch.randn(4, 6)
        torch.compiler.reset()
        with torch.no_grad():
            same(compiled(module, cache_dir=str(tmp_path), cache_weightless=True)(x), module(x))
    assert len(list(tmp_path.iterdir())) == 1


def test_weightless_engines_are_of_all_modules_of_an_architecture(tmp_path):
    """The process compares its results with those of the module itself."""
    other = "model[0].weight.data[0, 0] += 1"
    assert "taken from" not in in_a_process(tmp_path, cache_weightless=True)
    assert "taken from" in in_a_process(tmp_path, change=other, strip_engine_weights=True)
    wider = "model[2] = torch.nn.Linear(8, 5).eval()"
    assert "taken from" not in in_a_process(tmp_path, change=wider, cache_weightless=True)
    assert len(list((tmp_path / "cache").iterdir())) == 2


def test_a_cache_has_a_size(tmp_path):
    in_a_process(tmp_path)
    in_a_process(tmp_path, change="model[0].weight.data[0, 0] += 1")
    kept = sorted((tmp_path / "cache").iterdir())
    assert len(kept) == 2
    assert "taken from" in in_a_process(tmp_path)  # the first one was used last
    in_a_process(tmp_path, change="model[0].weight.data[0, 0] += 2", engine_cache_size=2 * kept[0].stat().st_size + 64)
    assert len(list((tmp_path / "cache").iterdir())) == 2
    assert "taken from" in in_a_process(tmp_path)
    with pytest.raises(camshaft.InvalidArgumentError, match="cache_size"):
        camshaft.torch._options.parsed({"cache_size": -1})
