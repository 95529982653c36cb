"""camshaft trtexec: lines as people write them, what scripts read from its output, its files, and its errors."""

import json
import re
import shlex
import subprocess

import numpy as np
import onnxruntime
import pytest
from camshaft_cli import BINARY, camshaft
from tensorrt_model import write_network

import onnx

QUICK = "--duration=0.01 --warmUp=1 --iterations=1"
PROFILE = "--minShapes=x:1x3x32x32 --optShapes=x:4x3x32x32 --maxShapes=x:8x3x32x32"

#: What people have in scripts, READMEs and questions; M, E and C stand for a model, an engine and a calibration cache.
LINES = [
    "--onnx=M",
    "--onnx=M --saveEngine=out.engine",
    "--onnx=M --saveEngine=out.trt --fp16",
    "--onnx=M --saveEngine=out.plan --explicitBatch",
    "--onnx=M --explicitBatch --workspace=4096 --fp16 --saveEngine=out.engine",
    "--onnx=M --fp16 --workspace=1024 --verbose",
    "--onnx=M --int8",
    "--onnx=M --int8 --fp16",
    "--onnx=M --int8 --calib=C",
    "--onnx=M --int8 --calib=C --calibBatchSize=4 --saveEngine=out.engine",
    "--onnx=M --best",
    "--onnx=M --best --workspace=2048 --saveEngine=out.engine",
    "--onnx=M --bf16",
    "--onnx=M --noTF32",
    "--onnx=M --refit --dumpRefit --timeRefit",
    "--onnx=M --refit --fp16 --refitFromOnnx=M",
    "--onnx=M --stripAllWeights --saveEngine=stripped.engine",
    "--onnx=M --stronglyTyped",
    f"--onnx=M {PROFILE}",
    f"--onnx=M {PROFILE} --shapes=x:4x3x32x32",
    f"--onnx=M {PROFILE} --fp16 --saveEngine=out.engine --skipInference",
    f"--onnx=M {PROFILE} --buildOnly",
    "--onnx=M --minShapes=\\'x\\':1x3x32x32 --optShapes=\\'x\\':2x3x32x32 --maxShapes=\\'x\\':4x3x32x32",
    "--onnx=M --optShapes=x:4x3x32x32",
    "--onnx=M --shapes=x:1x3x32x32",
    "--onnx=M --shapes=x:8x3x32x32 --fp16 --useCudaGraph",
    "--onnx=M --memPoolSize=workspace:1024",
    "--onnx=M --memPoolSize=workspace:1G,dlaSRAM:1M --fp16",
    "--onnx=M --builderOptimizationLevel=5",
    "--onnx=M --builderOptimizationLevel=0 --saveEngine=out.engine",
    "--onnx=M --timingCacheFile=timing.cache",
    "--onnx=M --timingCacheFile=timing.cache --noBuilderCache",
    "--onnx=M --profilingVerbosity=detailed --dumpLayerInfo --exportLayerInfo=layers.json",
    "--onnx=M --dumpProfile --separateProfileRun",
    "--onnx=M --dumpProfile --exportProfile=profile.json --exportTimes=times.json",
    "--onnx=M --exportOutput=output.json --dumpOutput",
    "--onnx=M --dumpRawBindingsToFile",
    "--onnx=M --avgRuns=100 --percentile=99",
    "--onnx=M --percentile=50,90,99.9",
    "--onnx=M --tacticSources=-CUDNN,+CUBLAS",
    "--onnx=M --tacticSources=-CUBLAS_LT --preview=+profileSharing0806",
    "--onnx=M --inputIOFormats=fp32:chw --outputIOFormats=fp32:chw",
    "--onnx=M --precisionConstraints=prefer --layerPrecisions=conv:fp32 --fp16",
    "--onnx=M --precisionConstraints=obey --layerPrecisions=*:fp32",
    "--onnx=M --layerOutputTypes=conv:fp32 --precisionConstraints=prefer",
    "--onnx=M --sparsity=enable",
    "--onnx=M --sparsity=disable --fp16",
    "--onnx=M --versionCompatible --hardwareCompatibilityLevel=ampere+",
    "--onnx=M --vc --excludeLeanRuntime",
    "--onnx=M --maxAuxStreams=2",
    "--onnx=M --cpuOnly",
    "--onnx=M --heuristic",
    "--onnx=M --minTiming=1 --avgTiming=8",
    "--onnx=M --directIO",
    "--onnx=M --dumpOptimizationProfile --optShapes=x:4x3x32x32",
    "--onnx=M --pluginInstanceNorm --tempdir=/tmp",
    f"--onnx=M --profile=0 {PROFILE} --profile=1 {PROFILE.replace('8x3', '9x3')} --useProfile=1 --shapes=x:9x3x32x32",
    "--onnx=M --nvtxMode=verbose --avgRuns=1",
    "--onnx=M --inputIOFormats=fp16:chw --outputIOFormats=fp16:chw --fp16",
    "--onnx=M --tacticSources=-cublasLt,+cublas --preview=+fasterDynamicShapes0805",
    "--onnx=M --allocationStrategy=static --runtimePlatform=sameAsBuild --tempfileControls=in_memory:allow",
    "--onnx=M --memPoolSize=workspace:2048MiB --tilingOptimizationLevel=2 --l2LimitForTiling=1000000",
    "--onnx=M --int4 --noCudaGraph --infStreams=3 --percentile=90,95,99 --exposeDMA",
    "--onnx=M --markDebug=c,r --saveAllDebugTensors=summary,string --shapes=x:1x3x32x32",
    "--onnx=M --saveEngine=out.trt --explicitBatch --inputIOFormats=fp16:chw --outputIOFormats=fp16:chw "
    "--precisionConstraints=obey --fp16",
    "--onnx=M --dumpLayerInfo --profilingVerbosity=detailed --exportLayerInfo=graph.json --exportProfile=prof.json "
    "--exportTimes=timing.json --nvtxMode=verbose --saveEngine=x.plan --separateProfileRun --duration=0",
    "--onnx=M --optShapes=x:16x3x32x32 --maxShapes=x:32x3x32x32 --minShapes=x:1x3x32x32 --shapes=x:5x3x32x32",
    "--onnx=M --fp16 --int8 --saveEngine=s.engine --useCudaGraph --useSpinWait --noDataTransfers --infStreams=4 --threads",
    "--onnx=M --verbose --dumpRefit --refit --saveEngine=a.engine",
    "--onnx=M --buildOnly --saveEngine=o.engine --timingCacheFile=t.cache --tacticSources=-cublasLt,-cublas,-cudnn",
    '--onnx=M --layerPrecisions="conv":fp16,"relu":fp32 --layerOutputTypes="conv":fp16 --precisionConstraints=prefer --fp16',
    "--onnx=M --hardwareCompatibilityLevel=none --versionCompatible --useRuntime=lean",
    "--onnx=M --allowWeightStreaming --stronglyTyped --weightStreamingBudget=50%",
    "--onnx=M --optShapesCalib=x:4x3x32x32 --minShapesCalib=x:1x3x32x32 --maxShapesCalib=x:8x3x32x32 --int8 --calib=C",
    "--onnx=M --asyncFileReader --noCompilationCache --monitorMemory --maxTactics=10 --persistentCacheRatio=0.5",
    "--onnx=M --minShapes=x:1x3x32x32 --maxShapes=x:8x3x32x32 --fp16",
    "--onnx=M --preview=+aliasedPluginIO1003 --decomposableAttentions=a --ignoreParsedPluginLibs",
    "--loadEngine=E --batch=1 --streams=2",
    "--loadEngine=E --weightStreamingBudget=0%",
    "--loadEngine=E",
    "--loadEngine=E --shapes=x:4x3x32x32",
    "--loadEngine=E --shapes=x:1x3x32x32 --streams=2",
    "--loadEngine=E --infStreams=2 --threads --useSpinWait",
    "--loadEngine=E --noDataTransfers --useCudaGraph --useSpinWait",
    "--loadEngine=E --shapes=x:2x3x32x32 --dumpProfile --exportProfile=profile.json",
    "--loadEngine=E --sleepTime=1 --idleTime=1",
    "--loadEngine=E --exposeDMA --useManagedMemory",
    "--loadEngine=E --dumpLayerInfo",
    "--loadEngine=E --timeDeserialize",
    "--loadEngine=E --getPlanVersionOnly",
    "--loadEngine=E --useProfile=0",
    "--onnx=M --loadEngine=E",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trtexec")
    write_network(folder / "model.onnx")
    camshaft("build", folder / "model.onnx", "-o", folder / "model.engine", "--tuning", "heuristic")
    np.save(folder / "data.npy", np.random.default_rng(0).standard_normal((8, 3, 32, 32)).astype(np.float32))
    camshaft(
        *("calibrate", folder / "model.onnx", "--data", folder / "data.npy", "--format", "tensorrt"),
        *("-o", folder / "calibration.cache", "--method", "minmax"),
    )
    return folder


def trtexec(line, folder, check=True):
    words = [
        re.sub(
            r"=([MEC])$",
            lambda m: f"={ {'M': 'model.onnx', 'E': 'model.engine', 'C': 'calibration.cache'}[m[1]] }",
            word,
        )
        for word in shlex.split(line)
    ]
    return camshaft("trtexec", *words, check=check, cwd=folder)


@pytest.mark.parametrize("line", LINES)
def test_real_lines_are_accepted(line, folder):
    quick = QUICK if "=E" in line else f"{QUICK} --heuristic"
    text = trtexec(f"{line} {quick}", folder).stdout
    assert text.startswith("&&&& RUNNING TensorRT.trtexec [TensorRT v") and "&&&& PASSED TensorRT.trtexec" in text
    if not re.search("skipInference|buildOnly|timeDeserialize|VersionOnly", line):
        assert float(re.search(r"\[I\] Throughput: (\S+) qps", text)[1]) > 0
        latency = re.search(r"\[I\] Latency: min = (\S+) ms, max = (\S+) ms, mean = (\S+) ms, median = (\S+) ms", text)
        least, most, mean, median = map(float, latency.groups())
        assert 0 < least <= median <= most and least <= mean <= most
        assert re.search(r"GPU Compute Time: min = .* mean = \S+ ms, .*percentile\(\d+(\.\d+)?%\) = \S+ ms", text)


def test_a_model_beside_an_engine_is_not_read(folder):
    said = trtexec(f"--onnx=none.onnx --loadEngine=E {QUICK}", folder).stdout
    assert "[W] --onnx=none.onnx is not read: --loadEngine gives the engine" in said


def test_a_gpu_asked_for_by_its_number_is_the_cpu_where_there_is_none(folder):
    if any(entry["kind"] == "cuda" for entry in json.loads(camshaft("devices", "--json").stdout) if "name" in entry):
        pytest.skip("there is a GPU")
    said = trtexec(f"--loadEngine=E --device=0 {QUICK}", folder).stdout
    assert "--device=0: there is no GPU here, and the CPU takes its place" in said
    assert trtexec(f"--loadEngine=E --device=1 {QUICK}", folder, check=False).returncode != 0


def test_types_of_inputs_that_are_not_the_models_are_told(folder):
    said = trtexec(f"--onnx=M --inputIOFormats=fp16:chw --outputIOFormats=fp32:chw --heuristic {QUICK}", folder).stdout
    assert "--inputIOFormats: 'x' stays f32, as the model has it, where f16 is asked for" in said
    assert "--outputIOFormats:" not in said


def test_files_have_trtexecs_layout(folder):
    line = "--loadEngine=E --shapes=x:2x3x32x32 --exportTimes=t.json --exportProfile=p.json --exportLayerInfo=l.json"
    trtexec(f"{line} --exportOutput=o.json {QUICK}", folder)
    times, profile, layers, outputs = (json.loads((folder / f"{name}.json").read_text()) for name in "tplo")
    assert set(times[0]) == {
        *("startEnqMs", "endEnqMs", "startH2dMs", "endH2dMs", "startComputeMs", "endComputeMs", "startD2hMs"),
        *("endD2hMs", "h2dMs", "computeMs", "d2hMs", "latencyMs"),
    }
    assert profile[0]["count"] > 0 and set(profile[1]) == {"name", "timeMs", "averageMs", "medianMs", "percentage"}
    assert sum(row["percentage"] for row in profile[1:]) == pytest.approx(100)
    assert layers["Bindings"] == ["x", "y"] and len(layers["Layers"]) == len(profile) - 1
    assert all(isinstance(layer["Origin"], str) for layer in layers["Layers"])
    read = [tensor for layer in layers["Layers"] for tensor in layer["Inputs"] if tensor["Name"] == "x"]
    assert read[0]["Dimensions"] == [-1, 3, 32, 32] and read[0]["Format/Datatype"] == "Row major linear FP32"
    assert outputs[0]["name"] == "y" and outputs[0]["dimensions"] == "2x10" and len(outputs[0]["values"]) == 20


def test_inputs_come_from_files_of_raw_elements(folder):
    x = np.random.default_rng(3).standard_normal((2, 3, 32, 32)).astype(np.float32)
    x.tofile(folder / "x.bin")
    trtexec(f"--onnx=M --shapes=x:2x3x32x32 --loadInputs=x:x.bin --exportOutput=o.json --heuristic {QUICK}", folder)
    got = np.array(json.loads((folder / "o.json").read_text())[0]["values"]).reshape(2, 10)
    want = onnxruntime.InferenceSession(folder / "model.onnx").run(None, {"x": x})[0]
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    failed = trtexec(f"--onnx=M --shapes=x:1x3x32x32 --loadInputs=x:x.bin --heuristic {QUICK}", folder, check=False)
    assert failed.returncode == 1 and "has 24576 bytes, and input 'x' of 1x3x32x32 needs 12288" in failed.stderr


def test_debug_tensors_are_written_and_no_outputs(folder):
    """Of an engine that was built with them, and of one that was loaded."""
    x = np.random.default_rng(3).standard_normal((1, 3, 32, 32)).astype(np.float32)
    (folder / "debug.bin").write_bytes(x.tobytes())
    given = "--shapes=x:1x3x32x32 --loadInputs=x:debug.bin --exportOutput=debug.json"
    trtexec(
        f"--onnx=M --markDebug=c,r --saveDebugTensors=c:c.bin,r:r.bin --saveEngine=debug.engine {given} {QUICK}", folder
    )
    c, r = (np.frombuffer((folder / name).read_bytes(), np.float32) for name in ("c.bin", "r.bin"))
    assert c.size == 16 * 16 * 32 and c.min() < 0
    np.testing.assert_array_equal(r, np.maximum(c, 0))
    said = trtexec(f"--loadEngine=debug.engine --saveAllDebugTensors=numpy,summary,raw {given} {QUICK}", folder).stdout
    np.testing.assert_array_equal(np.load(folder / "c.npy"), c.reshape(1, 16, 16, 32))
    assert (folder / "r.raw").read_bytes() == r.tobytes() and "Debug tensor r (1x16x16x32): min 0, " in said
    assert [output["name"] for output in json.loads((folder / "debug.json").read_text())] == ["y"]


def test_weights_of_another_model(folder):
    """An engine without weights, refitted, computes what that model does."""
    other = onnx.load(folder / "model.onnx")
    matrix = 3 * onnx.numpy_helper.to_array(other.graph.initializer[1])
    other.graph.initializer[1].CopyFrom(onnx.numpy_helper.from_array(matrix, "matrix"))
    onnx.save(other, folder / "other.onnx")
    trtexec("--onnx=M --stripWeights --saveEngine=stripped.engine --heuristic --skipInference", folder)
    assert (folder / "stripped.engine").stat().st_size < (folder / "model.engine").stat().st_size
    x = np.random.default_rng(3).standard_normal((2, 3, 32, 32)).astype(np.float32)
    x.tofile(folder / "x.bin")
    line = f"--loadEngine=stripped.engine --shapes=x:2x3x32x32 --loadInputs=x:x.bin --exportOutput=o.json {QUICK}"
    assert "the engine has no weights" in trtexec(line, folder, check=False).stderr
    said = trtexec(f"{line} --refitFromOnnx=other.onnx --dumpRefit", folder).stdout
    assert re.search(r"Engine refitted in \S+ sec", said) and "matrix of f32[16,10], read by" in said
    got = np.array(json.loads((folder / "o.json").read_text())[0]["values"]).reshape(2, 10)
    want = onnxruntime.InferenceSession(folder / "other.onnx").run(None, {"x": x})[0]
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "line, message",
    [
        ("--onnx=M --frobnicate", "Unknown option: --frobnicate"),
        ("--onnx=M --fp16=yes", "--fp16 takes no value"),
        ("--onnx=M --shapes", "--shapes needs a value"),
        ("--onnx=M --iterations=many", "--iterations=many: this is no number"),
        ("--onnx=M --iterations=0", "at least 1 is possible"),
        ("--onnx=M --infStreams=1.5", "a whole number is needed"),
        ("--onnx=M --infStreams=99999", "--infStreams=99999: at most 1024 are possible"),
        ("--onnx=M --percentile=101", "0 to 100 are possible"),
        ("--onnx=M --builderOptimizationLevel=7", "0 to 5 are possible"),
        ("--onnx=M --sparsity=force", "there are no sparse kernels"),
        ("--onnx=M --inputIOFormats=fp16:hwc8", "row-major"),
        ("--onnx=M --inputIOFormats=half", "fp32, fp16, bf16"),
        ("--onnx=M --layerPrecisions=conv", "NAME:VALUE is needed"),
        ("--onnx=M --plugins=x.so", "x.so"),
        ("--onnx=M --setPluginsToSerialize=x.so", "--setPluginsToSerialize cannot be had: engines hold no libraries"),
        ("--loadEngine=E --timeRefit", "a loaded engine needs --refitFromOnnx"),
        ("--loadEngine=E --refitFromOnnx=model.onnx", "it was not built with the option refit"),
        ("--fp16", "Model missing or format not recognized"),
        ("--onnx=none.onnx", "none.onnx"),
        ("--loadEngine=M", "model.onnx"),
        ("--onnx=M --shapes=y:1x2", "y"),
        ("--onnx=M --batch=4", "--batch=4: batches are explicit: give --shapes"),
        ("--onnx=M --maxBatch=16", "--maxBatch=16: batches are explicit: give --maxShapes"),
        ("--uff=a.uff", "--uff cannot be had: models are ONNX"),
        ("--deploy=a.prototxt --output=prob", "--deploy cannot be had: models are ONNX"),
        ("--onnx=M --getPlanVersionOnly", "--getPlanVersionOnly needs the engine"),
        ("--loadEngine=E --saveDebugTensors=c:c.bin", "'c' was not marked when the engine was built"),
        ("--onnx=M --saveAllDebugTensors=jpeg", "summary, numpy, string or raw are possible"),
        ("--onnx=M --loadInputs=z:x.bin --shapes=x:1x3x32x32", "no input 'z'"),
    ],
)
def test_what_is_wrong_is_named(line, message, folder):
    (folder / "x.bin").write_bytes(bytes(12288))
    failed = trtexec(f"{line} --warmUp=1 --duration=0.01", folder, check=False)
    assert failed.returncode == 1 and "[E]" in failed.stderr and message in failed.stderr
    assert failed.stdout.splitlines()[-1].startswith("&&&& FAILED TensorRT.trtexec")


def test_program_of_that_name():
    link = BINARY.with_name("camshaft-trtexec")
    done = subprocess.run([link, "--help"], capture_output=True, text=True, check=True)
    assert "--onnx=<file>" in done.stdout and "Refused:" in done.stdout
