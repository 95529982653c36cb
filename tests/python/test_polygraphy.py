"""Polygraphy as it comes from PyPI, on camshaft.tensorrt: a program of strangers that uses much of the interface."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from catalog import EVERY
from tensorrt_model import write_network
from test_module import MODULE, module

pytest.importorskip("polygraphy", reason="polygraphy is not installed")
assert module

COMMAND = Path(sys.prefix) / "bin/polygraphy"
QUICK = {"tv_mobilenet_v2", "own_topk_head", "own_lstm"}
#: Polygraphy sets dynamic sizes to 1, which wav2vec 2.0 cannot be run with, and draws numbers from 0 to 1, on which
#: EfficientNet-B4 amplifies rounding so that ONNX Runtime's own two levels of optimisation differ by 8 % of its scale.
NOT_POLYGRAPHYS = {"hf_wav2vec2", "tv_efficientnet_b4"}
ZOO = [name for name in EVERY if name.startswith(("tv_", "timm_", "hf_", "own_")) and name not in NOT_POLYGRAPHYS]


def polygraphy(*arguments, folder):
    environment = {**os.environ, "PYTHONPATH": str(MODULE), "CAMSHAFT_TENSORRT_DEVICE": "cpu"}
    run = subprocess.run(
        [sys.executable, "-m", "camshaft.tensorrt", COMMAND, *map(str, arguments)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    return run.returncode, run.stdout + run.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("polygraphy")
    write_network(folder / "model.onnx")
    return folder


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.large) for name in ZOO])
def test_zoo_agrees_with_onnx_runtime(name, tmp_path):
    code, text = polygraphy(
        "run", EVERY[name].path(), "--trt", "--onnxrt", "--atol", 1e-3, "--rtol", 1e-3, folder=tmp_path
    )
    assert code == 0 and "PASSED" in text, text[-3000:]


def test_every_tensor_is_compared(folder):
    code, text = polygraphy(
        *("run", "model.onnx", "--trt", "--onnxrt", "--trt-outputs", "mark", "all", "--onnx-outputs", "mark", "all"),
        folder=folder,
    )
    assert code == 0 and "Outputs: ['c', 'r', 'p', 'f', 'y']" in text, text[-3000:]


def test_conversion_with_profiles_and_a_calibration_cache(folder):
    shapes = [
        "--trt-min-shapes",
        "x:[1,3,32,32]",
        "--trt-opt-shapes",
        "x:[4,3,32,32]",
        "--trt-max-shapes",
        "x:[8,3,32,32]",
    ]
    code, text = polygraphy(
        *("convert", "model.onnx", *shapes, "--int8", "--calibration-cache", "calibration.cache", "-o", "model.engine"),
        folder=folder,
    )
    assert code == 0, text[-3000:]
    assert (folder / "calibration.cache").read_text().startswith("TRT-")
    code, text = polygraphy(
        "inspect", "model", "model.engine", "--model-type", "engine", "--show", "layers", folder=folder
    )
    assert code == 0 and "max=(8, 3, 32, 32)" in text and "-> {y [dtype=float32" in text, text[-3000:]
    code, text = polygraphy("run", "model.engine", "--model-type", "engine", "--trt", folder=folder)
    assert code == 0, text[-3000:]


def test_network_is_listed(folder):
    code, text = polygraphy(
        *("inspect", "model", "model.onnx", "--convert-to", "trt", "--show", "layers", "attrs", "weights"),
        folder=folder,
    )
    assert code == 0 and "conv.stride_nd = (2, 1)" in text and "<Error" not in text, text[-3000:]


CHECK = """
import sys
import tensorrt as trt

logger = trt.Logger(trt.Logger.ERROR)
builder = trt.Builder(logger)
network = builder.create_network()
parser = trt.OnnxParser(network, logger)
assert parser.parse_from_file("polygraphy_debug.onnx")
assert builder.build_serialized_network(network, builder.create_builder_config())
sys.exit(any(layer.type == trt.LayerType.ACTIVATION for layer in network))
"""


def test_reduction_to_the_layer_that_fails(folder):
    """`debug reduce` with a check of its user's, here that there is no activation."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnx_graphsurgeon", reason="onnx_graphsurgeon is not installed")
    (folder / "check.py").write_text(CHECK)
    code, text = polygraphy(
        *("debug", "reduce", "model.onnx", "-o", "reduced.onnx", "--mode", "linear"),
        *("--model-input-shapes", "x:[1,3,32,32]", "--check", sys.executable, "-m", "camshaft.tensorrt", "check.py"),
        folder=folder,
    )
    assert code == 0 and (folder / "reduced.onnx").exists(), text[-3000:]
    assert [node.op_type for node in onnx.load(folder / "reduced.onnx").graph.node] == ["Relu"]


SHAPES = "--trt-min-shapes x:[1,3,32,32] --trt-opt-shapes x:[2,3,32,32] --trt-max-shapes x:[4,3,32,32]"
#: Commands in an order in which each has the files that it reads; what is printed, or why it fails.
COMMANDS = {
    "template trt-network model.onnx -o network.py": "",
    f"template trt-config -o config.py --fp16 {SHAPES}": "",
    "run network.py --trt --model-type trt-network-script": "PASSED",
    "run model.onnx --trt --trt-config-script config.py": "PASSED",
    "convert model.onnx --convert-to trt -o model.plan --fp16 --save-timing-cache times": "",
    "convert model.onnx --convert-to onnx-like-trt-network -o like.onnx": "",
    "inspect model model.plan --model-type engine --show layers": "y [dtype=float32",
    "inspect model model.onnx --show layers attrs weights --display-as trt": "conv.stride_nd = (2, 1)",
    "inspect capability model.onnx": "fully supported",
    "inspect sparsity model.onnx": "",
    "run model.onnx --trt --onnxrt --save-engine saved.plan --save-inputs in.json --save-outputs out.json": "PASSED",
    "inspect data out.json --all": "trt-runner",
    "run saved.plan --trt --model-type engine --load-inputs in.json --load-outputs out.json": "PASSED",
    "data to-input out.json in.json -o both.json": "",
    "run model.onnx --trt --fp16 --layer-precisions conv:float32 --precision-constraints obey": "PASSED",
    "run model.onnx --trt --fp16 --layer-precisions conv:float32 relu:float16 --precision-constraints prefer": "PASSED",
    "run model.onnx --trt --int8 --calibration-cache ranges": "PASSED",
    f"run model.onnx --trt --onnxrt {SHAPES} --input-shapes x:[3,3,32,32] --optimization-profile 0": "PASSED",
    "run model.onnx --trt --strongly-typed --builder-optimization-level 5 --profiling-verbosity detailed": "PASSED",
    "run model.onnx --trt --onnxrt --refittable": "PASSED",
    "run model.onnx --trt --save-tactics tactics.json": "PASSED",
    "run model.onnx --trt --load-tactics tactics.json": "PASSED",
    "inspect tactics tactics.json": "Layer: conv + relu",
    "run model.onnx --trt --trt-outputs c r": "PASSED",
    "surgeon extract model.onnx --inputs c:auto:auto --outputs p:auto -o part.onnx": "",
    "surgeon insert model.onnx --inputs c --outputs r --op Identity -o inserted.onnx": "",
    "surgeon sanitize model.onnx --fold-constants --cleanup -o clean.onnx": "",
    "run part.onnx --trt --onnxrt --atol 1e-4": "PASSED",
    "run clean.onnx --trt --onnxrt --atol 1e-4": "PASSED",
    "debug build model.onnx --fp16 --until 2 --check true": "",
    f"run model.onnx --trt --onnxrt {SHAPES} --iterations 3 --warm-up 2 --use-subprocess": "PASSED",
    "run model.onnx --trt --onnxrt --tf32 --fp16 --bf16 --rtol 1e-2 --atol 1e-2 --check-error-stat median": "PASSED",
    "run model.onnx --trt --onnxrt --fail-fast --validate --infinities-compare-equal --postprocess y:top-3": "PASSED",
    "run model.onnx --trt --tactic-sources CUBLAS CUDNN --pool-limit workspace:1G tactic_dram:512M "
    "--hardware-compatibility-level none --preview-features PROFILE_SHARING_0806": "PASSED",
    "run model.onnx --trt --version-compatible --exclude-lean-runtime --max-aux-streams 2 "
    "--allocation-strategy runtime": "PASSED",
    "run model.onnx --trt --load-timing-cache t --save-timing-cache t --sparse-weights --use-dla "
    "--allow-gpu-fallback": "PASSED",
    "run model.onnx --trt --weight-streaming --weight-streaming-budget 50% --strongly-typed": "PASSED",
    "run model.onnx --trt --mark-debug c": "c [dtype=float32, shape=(1, 16, 16, 32)]",
    "run model.onnx --trt --int8 --calib-base-cls IInt8MinMaxCalibrator --calibration-cache minmax.cache": "PASSED",
    "run model.onnx --trt --profiling-verbosity detailed --quantization-flag CALIBRATE_BEFORE_FUSION "
    "--disable-compilation-cache": "PASSED",
    "inspect capability model.onnx --with-partitioning": "",
    "surgeon weight-strip model.onnx -o stripped.onnx": "",
    "surgeon weight-reconstruct stripped.onnx -o other.onnx": "",
    "run other.onnx --trt --onnxrt": "PASSED",
    "debug precision model.onnx --fp16 --precision float32 --mode bisect --check true": "",
    "debug precision model.onnx --fp16 --mode linear --check false": "",
    "debug repeat --until 2 --check true": "",
}
FAILING = {
    "run model.onnx --trt --strip-plan": "the engine has no weights",
    "run model.onnx --trt --error-on-timing-cache-miss": "ERROR_ON_TIMING_CACHE_MISS",
    "run model.onnx --trt --input-shapes x:[9,3,32,32] " + SHAPES: "outside every profile",
}


@pytest.fixture(scope="module")
def answers(folder):
    """What each command gives: (status, all that it printed)."""
    pytest.importorskip("onnx_graphsurgeon", reason="onnx_graphsurgeon is not installed")
    listed = [command.split() for command in [*COMMANDS, *FAILING]]
    environment = {**os.environ, "PYTHONPATH": str(MODULE), "CAMSHAFT_TENSORRT_DEVICE": "cpu"}
    run = subprocess.run(
        [sys.executable, Path(__file__).parent / "polygraphy/commands.py"],
        input=json.dumps(listed),
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert run.returncode == 0, run.stderr
    return dict(zip([*COMMANDS, *FAILING], map(json.loads, run.stdout.splitlines())))


@pytest.mark.parametrize("command", COMMANDS)
def test_commands(command, answers):
    status, printed = answers[command]
    assert status == 0 and COMMANDS[command] in printed, printed[-3000:]
    assert "<Error" not in printed


@pytest.mark.parametrize("command", FAILING)
def test_commands_that_ask_for_what_is_not_there(command, answers):
    status, printed = answers[command]
    assert status not in (0, "raised") and FAILING[command] in printed, printed[-3000:]


def test_the_interface_in_python(folder):
    environment = {**os.environ, "PYTHONPATH": str(MODULE), "CAMSHAFT_TENSORRT_DEVICE": "cpu"}
    run = subprocess.run(
        [sys.executable, "-m", "camshaft.tensorrt", Path(__file__).parent / "polygraphy/interface.py"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0 and "PASSED" in run.stdout, run.stdout[-2000:] + run.stderr[-2000:]
