"""Tensors of safetensors files: mapped, of every type, and refused where a file is not what it says."""

import json
import struct

import numpy as np
import pytest
from camshaft import FileError, InvalidModelError
from camshaft.llm._safetensors import SafetensorsFolder
from safetensors.numpy import save_file


def written(path, header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def tensor(dtype="F32", shape=(2, 2), offsets=(0, 16)):
    return {"x": {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}}


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"])
def test_types(tmp_path, dtype):
    x = (np.arange(24) % 5 - (0 if dtype in ("uint8", "bool") else 2)).astype(dtype).reshape(2, 3, 4)
    save_file({"a.weight": x, "scalar": x[0, 0, :1].reshape(()), "none": x[:0]}, tmp_path / "model.safetensors")
    source = SafetensorsFolder(tmp_path)
    for name, wanted in [("a.weight", x), ("scalar", x[0, 0, :1].reshape(())), ("none", x[:0])]:
        np.testing.assert_array_equal(source.array(name), wanted)
        assert source.array(name).shape == np.shape(wanted)


def test_arrays_are_the_files_bytes(tmp_path):
    save_file({"x": np.arange(1024, dtype=np.float32)}, tmp_path / "model.safetensors")
    source = SafetensorsFolder(tmp_path)
    first, second = source.array("x"), source.array("x")
    assert np.shares_memory(first, second) and first.ctypes.data % 4 == 0


def test_tensors_that_are_not_aligned_are_copied(tmp_path):
    for shift in range(4):
        values = np.arange(4, dtype=np.float32)
        text = json.dumps(tensor()).encode() + b" " * shift
        written(tmp_path / "model.safetensors", text, values.tobytes())
        x = SafetensorsFolder(tmp_path).array("x")
        assert x.flags.aligned
        np.testing.assert_array_equal(x.reshape(-1), values)


def test_an_index_names_the_files(tmp_path):
    parts = {"a": np.ones(3, np.float32), "b": np.zeros(2, np.float16)}
    for name, x in parts.items():
        save_file({name: x}, tmp_path / f"part-{name}.safetensors")
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {name: f"part-{name}.safetensors" for name in parts}}))
    source = SafetensorsFolder(tmp_path)
    assert sorted(source.entries) == ["a", "b"]
    np.testing.assert_array_equal(source.array("b"), parts["b"])

    for file, words in [
        ("../part-a.safetensors", "must be a name in this folder"),
        ("part-b.safetensors", "tensor 'a' is missing"),
        ("gone.safetensors", "No such file"),
        (7, "must be a name in this folder"),
    ]:
        index.write_text(json.dumps({"weight_map": {"a": file}}))
        with pytest.raises((InvalidModelError, FileError), match=words):
            SafetensorsFolder(tmp_path)


@pytest.mark.parametrize(
    "header, data, words",
    [
        (tensor(), b"\0" * 15, "ends? at .* it is cut"),
        (tensor(shape=[2, 3]), b"\0" * 16, r"F32\[2, 3\] takes 24 bytes, not 16"),
        (tensor(shape=[1 << 40, 1 << 40]), b"\0" * 16, "bytes, not 16"),
        (tensor(shape=[-1, -4]), b"\0" * 16, "field 'shape' is a list of 2"),
        (tensor(shape=[2.0, 2]), b"\0" * 16, "field 'shape'"),
        (tensor(offsets=[16, 0]), b"\0" * 16, "field 'data_offsets'"),
        (tensor(offsets=[0]), b"\0" * 16, "field 'data_offsets'"),
        (tensor(dtype=3), b"\0" * 16, "field 'dtype' is 3; a text is needed"),
        ({"x": {"dtype": "F32", "shape": [1]}}, b"\0" * 4, "field 'data_offsets' is missing"),
        ({"x": 5}, b"", "an object of fields is needed"),
        ({"a\nb": tensor()["x"]}, b"\0" * 16, "a tensor has no proper name"),
        ({"a" * 1000: tensor()["x"]}, b"\0" * 16, "a tensor has no proper name"),
        ([1], b"", "an object of fields is needed"),
        (b"{", b"", "the header is no JSON"),
        (b"\xff\xfe", b"", "the header is no JSON"),
        (b"[" * 100_000, b"", "the header is no JSON"),
    ],
)
def test_headers_that_lie_are_refused(tmp_path, header, data, words):
    written(tmp_path / "model.safetensors", header, data)
    with pytest.raises(InvalidModelError, match=words) as error:
        SafetensorsFolder(tmp_path)
    assert "model.safetensors" in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("data", [b"", b"\1\0\0", struct.pack("<Q", 1 << 62), struct.pack("<Q", 100) + b"{}"])
def test_files_that_are_cut_are_refused(tmp_path, data):
    (tmp_path / "model.safetensors").write_bytes(data)
    with pytest.raises(InvalidModelError, match="cannot hold a header"):
        SafetensorsFolder(tmp_path)


def test_headers_with_changed_bytes_raise_errors_of_ours(tmp_path):
    path, random = tmp_path / "model.safetensors", np.random.default_rng(9)
    save_file({"a.weight": np.ones((3, 5), np.float32), "b": np.ones(7, np.float16)}, path)
    data = path.read_bytes()
    for _ in range(500):
        changed = bytearray(data)
        for at in random.integers(0, len(data) - 60, random.integers(1, 4)):
            changed[at] = random.choice(bytearray(b'0129-.:,"[]{}eaF\xff\x00'))
        path.write_bytes(changed)
        try:
            source = SafetensorsFolder(tmp_path)
        except InvalidModelError as error:
            assert "\n" not in str(error) and len(str(error)) < 1000
            continue
        for name, entry in source.entries.items():
            if entry.dtype in ("F32", "F16"):
                assert source.array(name).shape == entry.shape


def test_folders_without_weights(tmp_path):
    with pytest.raises(FileError, match=r"no file \*\.safetensors"):
        SafetensorsFolder(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(FileError, match="pytorch_model.bin is of another format"):
        SafetensorsFolder(tmp_path)
    for name in ("a", "b"):
        save_file({"x": np.ones(1, np.float32)}, tmp_path / f"{name}.safetensors")
    with pytest.raises(InvalidModelError, match="tensor 'x' is also in a.safetensors"):
        SafetensorsFolder(tmp_path)
