"""What an ONNX file has, as onnx.proto declares it."""

from pathlib import Path, PurePosixPath

import numpy

from camshaft._values import _NUMPY, _ONNX
from camshaft.tensorrt._protobuf import Malformed, Message, encoded

_NAMES = {number: name for name, number in _ONNX.items()}
_BITS = {"f16": "u2", "bf16": "u2", "u4": "u1", "i4": "u1", "f4e2m1": "u1", "u2": "u1", "i2": "u1"}


def type_name(number):
    """Camshaft's name of an element type, "f32"; text with the number for one that there is not."""
    return _NAMES.get(number, f"type {number}")


class Entry(Message):
    FIELDS = {1: ("key", "text"), 2: ("value", "text")}


class Tensor(Message):
    FIELDS = {
        1: ("dims", "integers"),
        2: ("data_type", "integer"),
        4: ("float_data", "floats"),
        5: ("int32_data", "integers"),
        6: ("string_data", "spans"),
        7: ("int64_data", "integers"),
        8: ("name", "text"),
        9: ("raw_data", "bytes"),
        10: ("double_data", "doubles"),
        11: ("uint64_data", "integers"),
        13: ("external_data", [Entry]),
        14: ("data_location", "integer"),
    }

    dtype = property(lambda self: type_name(self.data_type))
    is_external = property(lambda self: self.data_location == 1)

    def load(self, data):
        """Its elements, as bytes, which stand elsewhere."""
        self.raw_data, self.data_location, self.external_data = data, 0, []

    def constant(self, folder):
        """(array, dtype where that is not the array's own or "", dims). The array is of bytes, then, or a list of bytes
        for strings. External data is in `folder`."""
        dims, name = tuple(self.dims), self.dtype
        if name == "string":
            return [bytes(item) for item in self.string_data], name, dims
        kind = _NUMPY.get(name, "uint8")
        raw = self._external(folder) if self.is_external else self.raw_data
        if len(raw):
            array = numpy.frombuffer(raw, numpy.uint8)
        else:
            array = self._listed(name, kind)
        if name not in _NUMPY:
            return array.view(numpy.uint8), name, dims
        try:
            return array.view(kind).reshape(dims), "", dims
        except ValueError:
            raise Malformed(
                f"tensor '{self.name}' has {array.nbytes} bytes, which is not {list(dims)} of {name}"
            ) from None

    def _listed(self, name, kind):
        if name == "f32":
            return numpy.array(self.float_data, numpy.float32)
        if name == "f64":
            return numpy.array(self.double_data, numpy.float64)
        if name == "i64":
            return numpy.array(self.int64_data, numpy.int64)
        if name in ("u32", "u64"):
            return numpy.array(self.uint64_data, numpy.int64).astype(kind)
        # Bits of narrow floats are integers here.
        bits = _BITS.get(name, "u1" if name.startswith("f8") else kind)
        made = numpy.array(self.int32_data, numpy.int64).astype(bits)
        return made.view(kind) if name == "f16" else made

    def _external(self, folder):
        given = {entry.key: entry.value for entry in self.external_data}
        location = given.get("location", "")
        path = PurePosixPath(location)
        if folder is None:
            raise Malformed(f"the data of tensor '{self.name}' is in the file '{location}': give the model's path")
        if not location or path.is_absolute() or ".." in path.parts:
            raise Malformed(f"the data of tensor '{self.name}' is in the file '{location}', outside the model's folder")
        file = Path(folder) / location
        try:
            size = file.stat().st_size
            offset = int(given.get("offset", 0))
            length = int(given.get("length", size - offset))
            if not 0 <= offset <= offset + length <= size:
                raise Malformed(f"the data of tensor '{self.name}' is beyond the end of '{file}'")
            # Which is mapped, and may be written without changing the file: NumPy hands out no constant arrays.
            return numpy.memmap(file, numpy.uint8, "c", offset, (length,)) if length else b""
        except OSError as error:
            raise Malformed(f"the data of tensor '{self.name}': cannot read '{file}': {error.strerror}") from None


class Dimension(Message):
    FIELDS = {1: ("dim_value", "integer"), 2: ("dim_param", "text")}


class Shape(Message):
    FIELDS = {1: ("dim", [Dimension])}


class TensorType(Message):
    FIELDS = {1: ("elem_type", "integer"), 2: ("shape", Shape)}


class Type(Message):
    """Of tensors, sequences, maps or optionals."""

    def text(self):
        """As ONNX's schemas write it, "seq(tensor(float))"; the elements by Camshaft's names."""
        if self.sequence_type is not None:
            return f"seq({self.sequence_type.elem_type.text()})"
        if self.optional_type is not None:
            return f"optional({self.optional_type.elem_type.text()})"
        if self.map_type is not None:
            return f"map({type_name(self.map_type.key_type)},{self.map_type.value_type.text()})"
        if self.tensor_type is None:
            raise Malformed("a value is of a type that there is not")
        return type_name(self.tensor_type.elem_type)


class Element(Message):
    FIELDS = {1: ("elem_type", Type)}


class Map(Message):
    FIELDS = {1: ("key_type", "integer"), 2: ("value_type", Type)}


Type.FIELDS = {
    1: ("tensor_type", TensorType),
    4: ("sequence_type", Element),
    5: ("map_type", Map),
    9: ("optional_type", Element),
}


class ValueInfo(Message):
    FIELDS = {1: ("name", "text"), 2: ("type", Type)}


class Attribute(Message):
    """FIELDS are set below: graphs have nodes, and these have attributes."""

    _VALUES = {1: "f", 2: "i", 3: "s", 4: "t", 5: "g", 6: "floats", 7: "ints", 8: "strings", 13: "tp"}

    @property
    def value(self):
        """What it holds by its type; None for a kind that is read nowhere."""
        return getattr(self, self._VALUES.get(self.type, ""), None)


class Node(Message):
    FIELDS = {
        1: ("input", "texts"),
        2: ("output", "texts"),
        3: ("name", "text"),
        4: ("op_type", "text"),
        5: ("attribute", [Attribute]),
        7: ("domain", "text"),
    }


class Graph(Message):
    FIELDS = {
        1: ("node", [Node]),
        2: ("name", "text"),
        5: ("initializer", [Tensor]),
        11: ("input", [ValueInfo]),
        12: ("output", [ValueInfo]),
        13: ("value_info", [ValueInfo]),
        15: ("sparse_initializer", "spans"),
    }


Attribute.FIELDS = {
    1: ("name", "text"),
    2: ("f", "float"),
    3: ("i", "integer"),
    4: ("s", "bytes"),
    5: ("t", Tensor),
    6: ("g", Graph),
    7: ("floats", "floats"),
    8: ("ints", "integers"),
    9: ("strings", "spans"),
    11: ("graphs", [Graph]),
    14: ("tp", Type),
    20: ("type", "integer"),
    21: ("ref_attr_name", "text"),
}


class OperatorSet(Message):
    FIELDS = {1: ("domain", "text"), 2: ("version", "integer")}


class Function(Message):
    FIELDS = {
        1: ("name", "text"),
        4: ("input", "texts"),
        5: ("output", "texts"),
        6: ("attribute", "texts"),
        7: ("node", [Node]),
        10: ("domain", "text"),
        11: ("attribute_proto", [Attribute]),
    }


class Model(Message):
    FIELDS = {
        1: ("ir_version", "integer"),
        7: ("graph", Graph),
        8: ("opset_import", [OperatorSet]),
        25: ("functions", [Function]),
    }


def writable(model):
    """A model's bytes, of which NumPy makes arrays that may be written: it hands out no constant ones to the library."""
    return model if isinstance(model, bytearray) else bytearray(model)


def read_file(path):
    """The same of a file. Raises OSError."""
    data = bytearray(path.stat().st_size)
    with path.open("rb") as file:
        del data[file.readinto(data) :]
    return data


def metadata_entry(key, value):
    """What follows a model's bytes to give it one more entry of metadata."""
    entry = encoded(1, key.encode()) + encoded(2, value.encode())
    return encoded(14, entry)
