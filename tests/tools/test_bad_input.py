"""Every way to hold it wrong ends in a non-zero exit code and one message that says what is wrong and where."""

import os
import resource
import signal
import stat
import subprocess
import time

import numpy as np
import pytest
from camshaft_cli import BINARY, camshaft
from catalog import MODELS

import onnx
from onnx import TensorProto, helper

FEED = {"x": np.zeros((1, 3, 48, 192), np.float32)}


@pytest.fixture
def model():
    return MODELS["ppocr_cls"].path()


def refused(done, *words):
    """The command failed by itself (no crash, no signal) and its message has each of the words, in any case."""
    message = done.stderr
    assert 0 < done.returncode < 126, f"exit code {done.returncode}\n{done.stdout}{message}"
    assert "terminate called" not in message and "Assertion" not in message
    assert message.strip(), "a failure must say something on stderr"
    assert len(message.strip().splitlines()) <= 12, f"too long to be read:\n{message}"
    for word in words:
        assert str(word).lower() in message.lower(), f"'{word}' is not in the message: {message}"


def run_refused(engine, feed, tmp_path, *words):
    np.savez(tmp_path / "bad.npz", **feed)
    refused(
        camshaft("run", engine, "--inputs", tmp_path / "bad.npz", "--outputs", tmp_path / "out.npz", check=False),
        *words,
    )
    assert not (tmp_path / "out.npz").exists()


def build_refused(path, tmp_path, *words, **options):
    """`build` of that file fails with the words and leaves nothing beside it."""
    folder = tmp_path / "output"
    folder.mkdir(exist_ok=True)
    refused(camshaft("build", path, "-o", folder / "a.engine", check=False, **options), *words)
    assert list(folder.iterdir()) == []


# Models


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"This is a text file.\n" * 50,
        b"\x89PNG\r\n\x1a\n" + bytes(400),
        bytes(1000),
        np.random.default_rng(7).bytes(4000),
    ],
    ids=["empty", "text", "picture", "zeros", "noise"],
)
def test_not_an_onnx_file(content, tmp_path):
    (tmp_path / "m.onnx").write_bytes(content)
    build_refused(tmp_path / "m.onnx", tmp_path, "m.onnx")


@pytest.mark.parametrize("part", [0.001, 0.1, 0.5, 0.9, 0.9999])
def test_truncated_model(part, model, tmp_path):
    content = model.read_bytes()
    (tmp_path / "m.onnx").write_bytes(content[: int(len(content) * part)])
    build_refused(tmp_path / "m.onnx", tmp_path, "m.onnx")


def test_no_such_file(tmp_path):
    build_refused(tmp_path / "absent.onnx", tmp_path, "absent.onnx")


def test_folder_as_model(tmp_path):
    build_refused(tmp_path, tmp_path, tmp_path)


def tiny(nodes, opsets=(("", 17),), weights=()):
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in ("a", "y")]
    graph = helper.make_graph(nodes, "g", value[:1], value[1:], list(weights))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(*opset) for opset in opsets], ir_version=8)


def test_all_unsupported_nodes_are_listed_at_once(tmp_path):
    nodes = [
        helper.make_node("Frobnicate", ["a"], ["b"], name="first", domain="com.example"),
        helper.make_node("Relu", ["b"], ["c"], name="fine"),
        helper.make_node("Transmogrify", ["c"], ["y"], name="second", domain="com.example"),
    ]
    onnx.save(tiny(nodes, [("", 17), ("com.example", 1)]), tmp_path / "m.onnx")
    build_refused(tmp_path / "m.onnx", tmp_path, "Frobnicate", "first", "Transmogrify", "second")


def test_external_data_outside_the_folder(tmp_path):
    (tmp_path / "secret.bin").write_bytes(bytes(64))
    folder = tmp_path / "model"
    folder.mkdir()
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4, 4], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", "../secret.bin"), ("offset", "0"), ("length", "64")):
        weight.external_data.add(key=key, value=value)
    proto = tiny([helper.make_node("MatMul", ["a", "w"], ["y"], name="product")], weights=[weight])
    (folder / "m.onnx").write_bytes(proto.SerializeToString())
    build_refused(folder / "m.onnx", tmp_path, "secret.bin")


def test_missing_external_data(tmp_path):
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4, 4], data_location=TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value="weights.bin")
    proto = tiny([helper.make_node("MatMul", ["a", "w"], ["y"], name="product")], weights=[weight])
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    build_refused(tmp_path / "m.onnx", tmp_path, "weights.bin")


# Engines


def test_engine_of_another_format_version(engine, tmp_path):
    content = bytearray(engine.read_bytes())
    version = int.from_bytes(content[8:12], "little")
    content[8:12] = (version + 1).to_bytes(4, "little")
    (tmp_path / "other.engine").write_bytes(content)
    run_refused(tmp_path / "other.engine", FEED, tmp_path, "other.engine", "version", version + 1)


@pytest.mark.parametrize("part", [0.0, 0.0001, 0.01, 0.5, 0.999])
def test_truncated_engine(part, engine, tmp_path):
    content = engine.read_bytes()
    (tmp_path / "short.engine").write_bytes(content[: int(len(content) * part)])
    run_refused(tmp_path / "short.engine", FEED, tmp_path, "short.engine")


def test_flipped_bytes_never_crash(engine, tmp_path):
    """A sample through the command; every section has its property test in tests/engine."""
    content = engine.read_bytes()
    np.savez(tmp_path / "in.npz", **FEED)
    for place in np.random.default_rng(5).integers(0, len(content), 24):
        damaged = bytearray(content)
        damaged[place] ^= 0x40
        (tmp_path / "damaged.engine").write_bytes(damaged)
        done = camshaft(
            "run",
            tmp_path / "damaged.engine",
            "--inputs",
            tmp_path / "in.npz",
            "--outputs",
            tmp_path / "out.npz",
            check=False,
        )
        assert 0 <= done.returncode < 126, (place, done)
        if done.returncode:
            refused(done, "damaged.engine")


# Inputs


def test_wrong_input_name(engine, tmp_path):
    run_refused(engine, {"image": FEED["x"]}, tmp_path, "image", "x")


@pytest.mark.parametrize("shape", [(1, 4, 48, 192), (3, 48, 192), (1, 3, 48, 192, 1), (1, 0, 48, 192)], ids=str)
def test_wrong_input_shape(shape, engine, tmp_path):
    run_refused(engine, {"x": np.zeros(shape, np.float32)}, tmp_path, "x", "shape")


@pytest.mark.parametrize("dtype", ["float64", "int64", "uint8"])
def test_wrong_input_dtype(dtype, engine, tmp_path):
    run_refused(engine, {"x": FEED["x"].astype(dtype)}, tmp_path, "x", "f32")


@pytest.mark.parametrize("shape", ["1x3x48x640", "1x3x48x32", "9x3x48x192"])
def test_shape_outside_every_profile(shape, model, tmp_path):
    path = tmp_path / "a.engine"
    camshaft(
        "build",
        model,
        "-o",
        path,
        "--no-verify",
        "--min-shapes",
        "x:1x3x48x96",
        "--opt-shapes",
        "x:1x3x48x192",
        "--max-shapes",
        "x:4x3x48x320",
    )
    refused(
        camshaft("run", path, "--shapes", f"x:{shape}", "--outputs", tmp_path / "out.npz", check=False), "x", "profile"
    )


@pytest.mark.parametrize("shape", ["x", "x:", "x:1x3xfourx5", "x:1x3x48x-1", "y:1x3x48x192"])
def test_malformed_shapes(shape, engine, tmp_path):
    refused(
        camshaft("run", engine, "--shapes", shape, "--outputs", tmp_path / "out.npz", check=False), shape.split(":")[0]
    )


@pytest.mark.parametrize("groups", [1, 8])
def test_zero_points_that_do_not_fit(groups, tmp_path):
    """Their number is known only when running."""
    graph = helper.make_graph(
        [helper.make_node("ConvInteger", ["x", "w", "", "zero"], ["y"], "conv", group=groups)],
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.UINT8, [1, 8, 6, 6]),
            helper.make_tensor_value_info("zero", TensorProto.UINT8, ["z"]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.INT32, None)],
        [onnx.numpy_helper.from_array(np.ones((8, 8 // groups, 3, 3), np.uint8), "w")],
    )
    path, engine = tmp_path / "m.onnx", tmp_path / "m.engine"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    camshaft("build", path, "-o", engine, "--no-verify", "--tuning", "heuristic")
    x = np.ones((1, 8, 6, 6), np.uint8)
    run_refused(engine, {"x": x, "zero": np.zeros(3, np.uint8)}, tmp_path, "zero points", "3", "8")


def test_inputs_that_are_no_npz(engine, tmp_path):
    (tmp_path / "in.npz").write_text("not a zip file")
    refused(
        camshaft("run", engine, "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz", check=False),
        "in.npz",
    )


def test_truncated_npz(engine, tmp_path):
    np.savez(tmp_path / "whole.npz", **FEED)
    content = (tmp_path / "whole.npz").read_bytes()
    for part in (0.2, 0.9, 0.999):
        (tmp_path / "in.npz").write_bytes(content[: int(len(content) * part)])
        refused(
            camshaft("run", engine, "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz", check=False),
            "in.npz",
        )


# Options


@pytest.mark.parametrize("threads", ["0", "-1", "many", "1.5", "99999999999999"])
@pytest.mark.parametrize("command", ["run", "bench"])
def test_threads(command, threads, engine):
    refused(camshaft(command, engine, "--shapes", "x:1x3x48x192", "--threads", threads, check=False), "threads")


@pytest.mark.parametrize(
    "arguments",
    [["frobnicate"], ["build"], ["run", "--no-such-option"], ["verify", "m.onnx", "--against", "tea-leaves"]],
    ids=" ".join,
)
def test_unknown_words(arguments):
    done = camshaft(*arguments, check=False)
    assert 0 < done.returncode < 126 and (done.stderr + done.stdout).strip()


# The world around


@pytest.mark.parametrize("output", ["absent/a.engine", "file/a.engine", "folder"])
def test_unwritable_output(output, model, tmp_path):
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "folder").mkdir()
    refused(camshaft("build", model, "-o", tmp_path / output, "--no-verify", check=False), tmp_path / output)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]
    assert list((tmp_path / "folder").iterdir()) == []


def test_outputs_do_not_overwrite_what_is_read(engine, tmp_path):
    own = tmp_path / "own.engine"
    own.write_bytes(engine.read_bytes())
    (tmp_path / "alias").symlink_to(own)
    np.savez(tmp_path / "in.npz", **FEED)
    before = own.read_bytes(), (tmp_path / "in.npz").read_bytes()
    given = ("--inputs", tmp_path / "in.npz")
    refused(camshaft("run", own, *given, "--outputs", own, check=False), own)
    refused(camshaft("run", own, *given, "--outputs", tmp_path / "alias", check=False), own)
    refused(camshaft("run", own, *given, "--outputs", tmp_path / "in.npz", check=False), tmp_path / "in.npz")
    assert before == (own.read_bytes(), (tmp_path / "in.npz").read_bytes())


def test_unwritable_outputs_of_run(engine, tmp_path):
    refused(
        camshaft("run", engine, "--shapes", "x:1x3x48x192", "--outputs", tmp_path / "absent/out.npz", check=False),
        "absent/out.npz",
    )


def limit_file_size():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # so that write() fails, as it does on a full disk
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))


def test_file_that_may_not_grow(model, tmp_path):
    """A write that fails half way: nothing half-written stays, and an engine that was there before is still whole."""
    build_refused(model, tmp_path, "a.engine", preexec_fn=limit_file_size)
    (tmp_path / "old.engine").write_bytes(b"the old engine")
    refused(
        camshaft("build", model, "-o", tmp_path / "old.engine", "--no-verify", check=False, preexec_fn=limit_file_size),
        "old.engine",
    )
    assert (tmp_path / "old.engine").read_bytes() == b"the old engine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old.engine", "output"]


def test_full_device(model):
    """/dev/full takes no byte. It must not be replaced by a file either."""
    refused(camshaft("build", model, "-o", "/dev/full", "--no-verify", check=False), "/dev/full", "space")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


def test_full_disk(model, tmp_path):
    """A file system of 256 KiB, in a mount namespace of its own, where the machine allows one."""
    script = f'mount -t tmpfs -o size=256k none "{tmp_path}" && "{BINARY}" build "{model}" -o "{tmp_path}/a.engine" --no-verify; code=$?; ls -A "{tmp_path}" | sed "s/^/left: /"; exit $code'
    namespace = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "--map-root-user"]
    if subprocess.run(
        [*namespace, "sh", "-c", f'mount -t tmpfs -o size=256k none "{tmp_path}"'], capture_output=True
    ).returncode:
        pytest.skip("this machine allows no mount namespaces; test_file_that_may_not_grow covers the rest")
    done = subprocess.run([*namespace, "sh", "-c", script], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    refused(done, "a.engine", "space")
    assert "left: " not in done.stdout, f"left behind: {done.stdout}"


def test_out_of_memory(engine, tmp_path):
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))

    refused(
        camshaft(
            "run",
            engine,
            "--shapes",
            "x:20000x3x48x1920",
            "--outputs",
            tmp_path / "out.npz",
            check=False,
            preexec_fn=limit,
        ),
        "memory",
    )


@pytest.mark.parametrize("shape", ["100000000x3x48x192", "4000000000x3x4000000000x4000000000"])
def test_absurd_shapes(shape, engine, tmp_path):
    refused(camshaft("run", engine, "--shapes", f"x:{shape}", "--outputs", tmp_path / "out.npz", check=False))


def test_interrupted_build(tmp_path):
    """Ctrl-C at several moments: either the build was done and its engine is whole, or nothing is there."""
    interrupted = 0
    for delay in (0.02, 0.1, 0.3, 0.6, 1.0):
        path = tmp_path / "a.engine"
        build = subprocess.Popen(
            [BINARY, "build", MODELS["minilm"].path(), "-o", path],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # A background job of a shell has SIGINT ignored and hands that on.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        time.sleep(delay)
        build.send_signal(signal.SIGINT)
        _, message = build.communicate(timeout=60)
        left = sorted(entry.name for entry in tmp_path.iterdir())
        if build.returncode == 0:
            assert left == ["a.engine"]
            camshaft("inspect", path)
            path.unlink()
        else:
            # 130 is the shell's code for Ctrl-C; -SIGINT: it came before the program could take notice.
            assert build.returncode in (130, -signal.SIGINT), (build.returncode, message)
            assert left == []
            interrupted += 1
    assert interrupted, "no build was slow enough to be interrupted"


def test_outputs_do_not_overwrite_the_inputs(model, tmp_path):
    inputs = tmp_path / "in.npz"
    np.savez(inputs, x=MODELS["ppocr_cls"].feed()["x"])
    before = inputs.read_bytes()
    refused(camshaft("build", model, "-o", inputs, "--inputs", inputs, check=False), inputs)
    for output in ("in.onnx", "in.npz", "other.npz"):
        done = camshaft("verify", model, "--inputs", inputs, "--reduce", tmp_path / output, check=False)
        refused(done, tmp_path / output.replace(".onnx", ".npz"))
    assert inputs.read_bytes() == before and [path.name for path in tmp_path.iterdir()] == ["in.npz"]


# Tuning


@pytest.fixture
def small(tmp_path):
    """A convolution with several tactics."""

    def write(name, channels=32):
        weights = np.random.default_rng(1).standard_normal((channels, 16, 3, 3)).astype(np.float32)
        graph = helper.make_graph(
            [helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])],
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 16, 12, 12])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            [onnx.numpy_helper.from_array(weights, "w")],
        )
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / name)
        return tmp_path / name

    return write


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--tuning", "fastest"], ["tuning", "heuristic, measure or locked", "fastest"]),
        (["--tuning", "locked"], ["--lock"]),
        (["--tuning", "heuristic", "--lock", "a.lock"], ["--lock", "heuristic"]),
        (["--tuning-seconds", "-1"], ["tuning-seconds", "-1"]),
        (["--tuning-seconds", "nan"], ["tuning-seconds", "nan"]),
        (["--verify-seconds", "-1"], ["verify-seconds", "-1"]),
        (["--lock", "no_such.lock"], ["no_such.lock"]),
        (["--write-lock", "no/such/folder.lock"], ["no/such/folder.lock"]),
        (["--timing-cache", "no/such/folder.cache"], ["no/such/folder.cache"]),
        (["--threads", "0"], ["threads", "'0'"]),
    ],
)
def test_bad_tuning_options(arguments, words, small, tmp_path):
    path = small("m.onnx")
    folder = tmp_path / "output"
    folder.mkdir()
    refused(camshaft("build", path, "-o", folder / "a.engine", *arguments, check=False), *words)
    assert list(folder.iterdir()) == []


def test_one_file_for_two_outputs(small, tmp_path):
    path, lock = small("m.onnx"), tmp_path / "m.lock"
    camshaft("build", path, "-o", tmp_path / "m.engine", "--write-lock", lock)
    before = lock.read_bytes()
    (tmp_path / "alias").symlink_to("m.engine")
    for arguments in (
        ["-o", "both", "--write-lock", "./both"],
        ["-o", "a.engine", "--write-lock", "both", "--timing-cache", tmp_path / "both"],
        ["-o", "m.engine", "--write-lock", "alias"],
        ["-o", "m.lock", "--lock", "m.lock"],
        ["-o", "a.engine", "--lock", "m.lock", "--timing-cache", "m.lock"],
    ):
        refused(camshaft("build", path, *arguments, cwd=tmp_path, check=False), "name another file")
    assert lock.read_bytes() == before and not (tmp_path / "both").exists()


def test_lock_file_of_another_model(small, tmp_path):
    camshaft("build", small("a.onnx"), "--write-lock", tmp_path / "a.lock")
    other = small("b.onnx", channels=48)
    build = ["build", other, "-o", tmp_path / "b.engine", "--lock"]
    refused(camshaft(*build, tmp_path / "a.lock", check=False), "a.lock", "another model", "a.onnx")
    (tmp_path / "cut.lock").write_bytes((tmp_path / "a.lock").read_bytes()[:-20])
    refused(camshaft(*build, tmp_path / "cut.lock", check=False), "cut.lock", "damaged")
    refused(camshaft(*build, other, check=False), "b.onnx", "no lock file")
    assert not (tmp_path / "b.engine").exists()


@pytest.mark.parametrize("part", [0.1, 0.5, 0.99])
def test_timing_cache_cut_short(part, small, tmp_path):
    path, cache = small("a.onnx"), tmp_path / "a.cache"
    camshaft("build", path, "--timing-cache", cache)
    content = cache.read_bytes()
    cache.write_bytes(content[: int(len(content) * part)])
    done = camshaft("build", path, "-o", tmp_path / "b.engine", "--timing-cache", cache, check=False)
    refused(done, "a.cache", "damaged", "delete it")
    assert not (tmp_path / "b.engine").exists() and len(cache.read_bytes()) == int(len(content) * part)


@pytest.mark.parametrize(
    "line, complaint",
    [
        ("", "a command is required; see 'camshaft --help'"),
        ("biuld m.onnx", "there is no command 'biuld'; see 'camshaft --help'"),
        ("--verison", "there is no option '--verison', or a command is missing behind it; see 'camshaft --help'"),
        ("build", "MODEL is required; see 'camshaft build --help'"),
        ("help biuld", "there is no command 'biuld'; see 'camshaft --help'"),
    ],
)
def test_a_wrong_line_says_what_is_wrong(line, complaint):
    done = camshaft(*line.split(), check=False)
    assert done.returncode == 2 and done.stderr == f"camshaft: error: {complaint}\n"
