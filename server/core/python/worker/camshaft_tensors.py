"""Tensors between numpy and the protocol's names and bytes."""

import struct

import numpy as np

TRITON_STRING_TO_NUMPY = {
    "TYPE_BOOL": np.bool_,
    "TYPE_UINT8": np.uint8,
    "TYPE_UINT16": np.uint16,
    "TYPE_UINT32": np.uint32,
    "TYPE_UINT64": np.uint64,
    "TYPE_INT8": np.int8,
    "TYPE_INT16": np.int16,
    "TYPE_INT32": np.int32,
    "TYPE_INT64": np.int64,
    "TYPE_FP16": np.float16,
    "TYPE_FP32": np.float32,
    "TYPE_FP64": np.float64,
    "TYPE_STRING": np.object_,
}
NUMPY_OF = {("BYTES" if name == "TYPE_STRING" else name[5:]): kind for name, kind in TRITON_STRING_TO_NUMPY.items()}
_NAME_OF = {np.dtype(kind): name for name, kind in NUMPY_OF.items()}


def protocol_name(dtype):
    """Of a numpy type, "FP32"; texts of any kind are BYTES."""
    dtype = np.dtype(dtype)
    if dtype.kind in "SU":
        return "BYTES"
    if dtype not in _NAME_OF:
        raise TypeError(f"tensors have no elements of the numpy type {dtype}")
    return _NAME_OF[dtype]


def decode_texts(data):
    """bytes objects of what has each element's length as u32 before it."""
    texts, at, data = [], 0, bytes(data)
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at)
        texts.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    return texts


def encode_texts(array):
    parts = []
    for text in array.reshape(-1):
        if not isinstance(text, bytes):
            text = bytes(text) if isinstance(text, (bytearray, memoryview)) else str(text).encode()
        parts += [struct.pack("<I", len(text)), text]
    return b"".join(parts)


def read_tensor(described, segments):
    """(name, array) of what a message says, without a copy except for texts."""
    at, kind, shape = described["at"], described["type"], described["shape"]
    if kind not in NUMPY_OF:
        raise TypeError(f"tensor '{described['name']}' has elements of {kind}, for which numpy has no type")
    data = segments.array(*at) if at is not None else np.empty(0, np.uint8)
    if kind == "BYTES":
        array = np.empty(int(np.prod(shape)), np.object_)
        array[:] = decode_texts(data)
    else:
        array = data.view(NUMPY_OF[kind])
    return described["name"], array.reshape(shape)


def write_tensor(name, array, arena):
    """What a message says of a tensor, whose elements are copied into shared memory. Who does not send it frees it."""
    kind = protocol_name(array.dtype)
    data = np.frombuffer(encode_texts(array), np.uint8) if kind == "BYTES" else None
    size = array.nbytes if data is None else data.nbytes
    at = None
    if size > 0:
        segment, offset, memory = arena.allocate(size)
        if data is None:
            np.copyto(memory.view(array.dtype).reshape(array.shape), array)
        else:
            memory[:] = data
        at = [segment, offset, size]
    return {"name": name, "type": kind, "shape": list(array.shape), "at": at}
