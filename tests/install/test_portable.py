"""What is shipped needs nothing but glibc, of version 2.28 or newer: the module, the shared library and the command.

With CAMSHAFT_OLD_SYSTEM, the root folder of another x86-64 system that has Python 3.9 or newer, they also run there:
`debootstrap --variant=minbase --include=python3 bullseye FOLDER`, as root, makes one of Debian 11 (glibc 2.31).
"""

import io
import os
import platform
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from camshaft_cli import BINARY, ROOT, camshaft
from PIL import Image

import onnx
from onnx import TensorProto, helper

BUILD = BINARY.parent.parent
FILES = [
    BUILD / "libcamshaft.so.1",
    BUILD / "python/camshaft/_native.abi3.so",
    BINARY,
    BUILD / "server/camshaft-server",
]
OF_GLIBC = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "ld-linux-x86-64.so.2"}
SCRIPT = Path(__file__).with_name("decode_pictures.py")

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="what is shipped is for x86-64")


def output(*arguments, **options):
    done = subprocess.run([str(a) for a in arguments], capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{arguments}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def is_old(version):
    """Whether glibc 2.28 has a version of symbols, as GLIBC_2.2.5."""
    numbers = re.fullmatch(r"GLIBC_(\d+(?:\.\d+)*)", version)
    return numbers is not None and tuple(map(int, numbers[1].split("."))) <= (2, 28)


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.name)
def test_needs_glibc_alone(file):
    dynamic = output("readelf", "--dynamic", "--wide", file)
    needed = set(re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic))
    assert "libc.so.6" in needed
    assert needed <= OF_GLIBC
    assert "TEXTREL" not in dynamic
    assert "RUNPATH" not in dynamic and "RPATH" not in dynamic


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.name)
def test_needs_no_newer_glibc(file):
    versions = re.findall(r"Name: (\S+)  Flags: \S+  Version: ", output("readelf", "--version-info", "--wide", file))
    assert "GLIBC_2.2.5" in versions
    assert [version for version in versions if not is_old(version)] == []


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.name)
def test_what_is_undefined_is_of_glibc_or_python(file):
    symbols = re.findall(
        r" GLOBAL +DEFAULT +UND +(\S+)", output("readelf", "--dyn-syms", "--wide", file)
    )  # weak ones may be missing
    assert any(symbol.endswith("@GLIBC_2.2.5") for symbol in symbols)
    others = {symbol for symbol in symbols if "@GLIBC_" not in symbol}
    assert {symbol for symbol in others if not (file.suffix == ".so" and symbol.startswith(("Py", "_Py")))} == set()


def test_the_module_exports_what_python_and_onnx_runtime_look_for():
    words = output("nm", "--dynamic", "--defined-only", FILES[1]).split()
    assert words[2::3] == ["CreateEpFactories", "PyInit__native", "ReleaseEpFactory"]


def test_auditwheel_agrees(tmp_path):
    wheel = tmp_path / "camshaft-0.1.0-cp39-abi3-linux_x86_64.whl"
    about = "camshaft-0.1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        for file in FILES:
            archive.write(file, f"camshaft/{file.name}")
        archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: camshaft\nVersion: 0.1.0\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp39-abi3-linux_x86_64\n")
        archive.writestr(f"{about}/RECORD", "".join(f"{name},,\n" for name in archive.namelist()))
    text = output(sys.executable, "-m", "auditwheel", "show", wheel)
    tag = re.search(r'platform\s+tag:\s+"manylinux_2_(\d+)_x86_64"', text)
    assert tag and int(tag[1]) <= 28, text


def test_what_older_versions_lack_is_made_of_what_they_have(tmp_path):
    source = tmp_path / "program.cpp"
    source.write_text(
        r"""
        #include <dlfcn.h>
        #include <sys/stat.h>
        #include <cstdint>
        #include <cstdio>
        #include <cstdlib>
        #include <stdexcept>
        extern "C" {
        long __isoc23_strtol(const char*, char**, int);
        unsigned long __isoc23_strtoul(const char*, char**, int);
        long long __isoc23_strtoll(const char*, char**, int);
        unsigned long long __isoc23_strtoull(const char*, char**, int);
        int __isoc23_sscanf(const char*, const char*, ...);
        uint32_t arc4random();
        }
        int main(int, char** argv) {
          char* end = nullptr;
          if (__isoc23_strtol("-0x7fz", &end, 0) != -127 || *end != 'z') return 1;
          if (__isoc23_strtoul("777", nullptr, 8) != 0777) return 2;
          if (__isoc23_strtoll("-9223372036854775808", nullptr, 10) != INT64_MIN) return 3;
          if (__isoc23_strtoull("18446744073709551615", nullptr, 10) != UINT64_MAX) return 4;
          int number = 0;
          char letter = 0;
          if (__isoc23_sscanf("12 x", "%d %c", &number, &letter) != 2 || number != 12 || letter != 'x') return 5;
          struct stat about;
          if (stat(argv[1], &about) != 0 || !S_ISREG(about.st_mode) || about.st_size != 3) return 6;
          if (lstat(argv[1], &about) != 0 || !S_ISLNK(about.st_mode)) return 7;
          std::FILE* file = std::fopen(argv[1], "r");
          if (fstat(fileno(file), &about) != 0 || about.st_size != 3) return 8;
          if (stat("/nowhere/file", &about) != -1) return 9;
          if (arc4random() == arc4random() && arc4random() == arc4random()) return 10;
          dl_find_object found;
          if (_dl_find_object(reinterpret_cast<void*>(&main), &found) != 0 || !found.dlfo_eh_frame) return 11;
          if (found.dlfo_map_start > reinterpret_cast<void*>(&main)) return 12;
          if (_dl_find_object(nullptr, &found) != -1) return 13;
          try {
            std::rethrow_exception(std::make_exception_ptr(std::runtime_error("thrown")));
          } catch (const std::runtime_error&) {
            return 0;
          }
        }
        """
    )
    program = tmp_path / "program"
    functions = ROOT / "cmake/glibc/newer_functions.cpp"
    output("c++", "-std=c++20", "-O2", "-static-libstdc++", "-static-libgcc", source, functions, "-o", program)
    (tmp_path / "file").write_text("abc")
    (tmp_path / "link").symlink_to("file")
    output(program, tmp_path / "link")


def encoded(kind):
    wave = np.arange(40 * 30 * 3).reshape(30, 40, 3)
    file = io.BytesIO()
    Image.fromarray(((wave * 7 + wave // 120 * 5) % 256).astype(np.uint8)).save(file, kind)
    return np.frombuffer(file.getvalue(), np.uint8)


@pytest.fixture(scope="module")
def engines(tmp_path_factory):
    """Two engines: one that gives files of pictures, the last cut off, and one that decodes a file."""
    folder = tmp_path_factory.mktemp("portable")
    files = {kind: encoded(kind) for kind in ["BMP", "JPEG", "PNG", "PPM", "WEBP"]}
    files["cut"] = files["PNG"][:-20]
    constants = [
        helper.make_tensor(f"{name}_file", TensorProto.UINT8, file.shape, file) for name, file in files.items()
    ]
    graphs = {
        "files": helper.make_graph(
            [helper.make_node("Identity", [f"{name}_file"], [name]) for name in files],
            "files",
            [],
            [helper.make_tensor_value_info(name, TensorProto.UINT8, file.shape) for name, file in files.items()],
            constants,
        ),
        "decode": helper.make_graph(
            [helper.make_node("ImageDecoder", ["file"], ["picture"])],
            "decode",
            [helper.make_tensor_value_info("file", TensorProto.UINT8, ["bytes"])],
            [helper.make_tensor_value_info("picture", TensorProto.UINT8, ["height", "width", 3])],
        ),
    }
    for name, graph in graphs.items():
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
        onnx.save(model, folder / f"{name}.onnx")
        camshaft("build", folder / f"{name}.onnx", "-o", folder / f"{name}.engine", "--no-verify")
    return folder


def decoded(engines, *python, **environment):
    environment = {**os.environ, "PYTHONPATH": str(BUILD / "python"), **environment}
    return output(*python, SCRIPT, engines / "files.engine", engines / "decode.engine", env=environment).splitlines()


def test_the_module_decodes_pictures(engines):
    lines = decoded(engines, sys.executable)
    assert [line.split()[0] for line in lines[1:]] == ["BMP", "JPEG", "PNG", "PPM", "WEBP", "cut"]
    assert all(" (30, 40, 3) " in line for line in lines[1:-1])
    lossless = {line.split()[-1] for line in lines if line.startswith(("BMP", "PNG", "PPM"))}
    assert len(lossless) == 1
    assert "it is cut off" in lines[-1]


@pytest.fixture
def old_system():
    """The command line that runs a program of an older system."""
    if "CAMSHAFT_OLD_SYSTEM" not in os.environ:
        pytest.skip("CAMSHAFT_OLD_SYSTEM names no older system")
    root = Path(os.environ["CAMSHAFT_OLD_SYSTEM"])
    libraries = [root / folder for folder in ["lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu", "lib64", "usr/lib64"]]
    # A link to an absolute path leads out of the folder.
    loader = next(path for folder in libraries for path in sorted(folder.glob("ld-*.so*")) if not path.is_symlink())
    return root, [loader, "--library-path", ":".join(map(str, libraries))]


def test_runs_on_an_older_system(engines, old_system):
    root, loader = old_system
    old = decoded(engines, *loader, root / "usr/bin/python3", PYTHONHOME=str(root / "usr"))
    new = decoded(engines, sys.executable)
    assert old[0] != new[0]
    assert old[1:] == new[1:]


def test_the_command_runs_on_an_older_system(engines, old_system):
    _, loader = old_system
    assert output(*loader, BINARY, "--version") == output(BINARY, "--version")
    again = engines / "again.engine"
    output(*loader, BINARY, "build", engines / "decode.onnx", "-o", again, "--no-verify")
    assert again.read_bytes() == (engines / "decode.engine").read_bytes()
