"""Makes what the fuzzers start from, out of the ONNX package: fuzz_seeds.py FOLDER

FOLDER/reader-seeds/*.onnx: the standard's node tests of at most 4 KB, each also with its small inputs as constants, so
that constant folding is reached. FOLDER/dictionary: names of operators, attributes and their values for libFuzzer.
Nothing is done when both were made of the same version of the package.
"""

import shutil
import sys
from pathlib import Path

from onnx.backend.test import __file__ as backend

import onnx
from onnx import numpy_helper

LARGEST = 4096


def make_dictionary(path: Path) -> None:
    words = set()
    for schema in onnx.defs.get_all_schemas_with_history():
        words.add(schema.name)
        words.update(schema.attributes)
    lines = [f'"{word}"' for word in sorted(words)]
    path.write_text("\n".join(lines) + "\n")


def with_constants(model: onnx.ModelProto, data: Path) -> onnx.ModelProto | None:
    """The same with the inputs of the first data set as initializers; None when they are large or no tensors."""
    constant = onnx.ModelProto()
    constant.CopyFrom(model)
    del constant.graph.input[:]
    for i, info in enumerate(model.graph.input):
        tensor = onnx.TensorProto()
        file = data / f"input_{i}.pb"
        if not file.exists() or not info.type.HasField("tensor_type"):
            return None
        tensor.ParseFromString(file.read_bytes())
        tensor.name = info.name
        if numpy_helper.to_array(tensor).nbytes > LARGEST:
            return None
        constant.graph.initializer.append(tensor)
    return constant


def make_models(folder: Path) -> int:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    count = 0
    for case in sorted((Path(backend).parent / "data" / "node").iterdir()):
        file = case / "model.onnx"
        if not file.exists() or file.stat().st_size > LARGEST:
            continue
        model = onnx.load(str(file))
        versions = {"": model, "_constant": with_constants(model, case / "test_data_set_0")}
        for suffix, version in versions.items():
            if version is not None and version.ByteSize() <= LARGEST:
                (folder / f"{case.name}{suffix}.onnx").write_bytes(version.SerializeToString())
                count += 1
    return count


def main() -> None:
    home = Path(sys.argv[1])
    stamp = home / "reader-seeds" / "made"
    if stamp.exists() and stamp.read_text() == onnx.__version__:
        return
    home.mkdir(parents=True, exist_ok=True)
    make_dictionary(home / "dictionary")
    print(make_models(home / "reader-seeds"), "models")
    stamp.write_text(onnx.__version__)


main()
