"""Creators in C++ of libraries that this process has loaded, compiled with camshaft/tensorrt/NvInfer.h: programs make
plugins by them for layers of networks."""

import contextlib
import ctypes
import os
import warnings
import weakref

import numpy

from camshaft.tensorrt._enums import PluginFieldType, TensorRTPhase
from camshaft.tensorrt._plugin_types import (
    _FIELD_TYPES,
    IPluginCreator,
    IPluginCreatorV3One,
    IPluginV2Ext,
    IPluginV3,
    PluginField,
    PluginFieldCollection,
)

_TEXT, _INTS = 3, 7  # of ONNX's attributes

#: What include/camshaft/tensorrt/detail/creators.h exports.
_SYMBOL = "camshaft_tensorrt_creators"

#: CreatorState of include/camshaft/tensorrt/detail/process.h.
_DEREGISTERED, _REGISTERED, _TAKEN_OUT = range(3)

_HANDLE, _SIZE = ctypes.c_void_p, ctypes.c_size_t
_BYTES, _LENGTH = ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t)


class _Table(ctypes.Structure):
    """camshaft_tensorrt_creators_table."""

    _fields_ = [
        ("size", _SIZE),
        ("size_bytes", ctypes.c_int32),
        ("list", ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(_HANDLE), ctypes.c_int32)),
        ("text", ctypes.CFUNCTYPE(ctypes.c_char_p, _HANDLE, ctypes.c_int32)),
        ("is_v3", ctypes.CFUNCTYPE(ctypes.c_int32, _HANDLE)),
        ("fields", ctypes.CFUNCTYPE(_BYTES, _HANDLE, _LENGTH)),
        ("create", ctypes.CFUNCTYPE(_HANDLE, _HANDLE, ctypes.c_char_p, ctypes.c_char_p, _SIZE, ctypes.c_int32)),
        ("deserialize", ctypes.CFUNCTYPE(_HANDLE, _HANDLE, ctypes.c_char_p, ctypes.c_char_p, _SIZE)),
        ("error", ctypes.CFUNCTYPE(ctypes.c_char_p)),
        ("outputs", ctypes.CFUNCTYPE(ctypes.c_int32, _HANDLE)),
        ("stored", ctypes.CFUNCTYPE(_BYTES, _HANDLE, _LENGTH)),
        ("destroy", ctypes.CFUNCTYPE(None, _HANDLE)),
        ("interface_number", ctypes.c_int32),
        ("changes", ctypes.CFUNCTYPE(ctypes.c_int64)),
        ("pointer", ctypes.CFUNCTYPE(_HANDLE, _HANDLE)),
        ("set_state", ctypes.CFUNCTYPE(ctypes.c_int32, _HANDLE, ctypes.c_int32)),
        ("acquire", ctypes.CFUNCTYPE(_HANDLE, ctypes.c_char_p, _HANDLE)),
        ("release", ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_char_p)),
        ("lock", ctypes.CFUNCTYPE(None)),
        ("unlock", ctypes.CFUNCTYPE(None)),
    ]


def _bytes_of(function, handle):
    length = ctypes.c_size_t()
    at = function(handle, ctypes.byref(length))
    return ctypes.string_at(at, length.value)


def _word(number):
    return int(number).to_bytes(8, "little", signed=True)


def _written(fields, size_bytes):
    """Fields as the header's Fields::read() takes them."""
    parts = [_word(len(fields))]
    for field in fields:
        name, data, length = field.name.encode(), field.data.tobytes(), field.size
        if field.type == PluginFieldType.DIMS:
            sizes = numpy.zeros(8, "int32" if size_bytes == 4 else "int64")
            sizes[:length] = field.data.ravel()
            data = length.to_bytes(size_bytes, "little") + sizes.tobytes()  # padded to where the sizes begin
            length = 1
        parts += [_word(len(name)), name, _word(field.type), _word(length), _word(len(data)), data]
    return b"".join(parts)


def _read(data, size_bytes):
    """The inverse."""
    at = 0

    def take(size):
        nonlocal at
        at += size
        return data[at - size : at]

    def word():
        return int.from_bytes(take(8), "little", signed=True)

    fields = PluginFieldCollection()
    for _ in range(word()):
        name = take(word()).decode(errors="replace")
        number, _ = word(), word()  # its length is that of its data
        kind = PluginFieldType(number) if number in set(PluginFieldType) else PluginFieldType.UNKNOWN
        content = take(word())
        if kind == PluginFieldType.DIMS:
            sizes = numpy.frombuffer(content, "int32" if size_bytes == 4 else "int64")
            content = sizes[1 : 1 + int(sizes[0])] if content else None  # the padding behind the number is zero
        elif kind in _FIELD_TYPES:
            content = numpy.frombuffer(content, _FIELD_TYPES[kind]) if content else None
        fields.append(PluginField(name, content, kind))
    return fields


class _Compiled:
    """A plugin that a creator in C++ made; engines make theirs of the same."""

    def _take(self, creator, handle, made_of):
        self._creator, self._handle = creator, handle
        #: Attributes of the node that the layer becomes: what it is made of again.
        self.attributes = [made_of]
        self.num_outputs = creator._table.outputs(handle)
        weakref.finalize(self, creator._table.destroy, handle).atexit = False

    @staticmethod
    def shape_inputs(inputs, shapes):
        """The attribute that says which inputs are shapes: the last ones."""
        places = list(range(inputs - shapes, inputs))
        return [("tensorrt_plugin_shape_input_indices", _INTS, places)] if places else []

    def _stored(self):
        return _bytes_of(self._creator._table.stored, self._handle)

    def clone(self):
        return self._creator._again(self)

    def destroy(self):
        pass


class CompiledPluginV2(_Compiled, IPluginV2Ext):
    """An IPluginV2 or one that is derived of it."""

    def __init__(self, creator, handle, made_of):
        IPluginV2Ext.__init__(self)
        self._take(creator, handle, made_of)
        self.plugin_type, self.plugin_version = creator.name, creator.plugin_version
        self.plugin_namespace = creator.plugin_namespace

    serialization_size = property(lambda self: len(self._stored()))

    def serialize(self):
        return self._stored()


class CompiledPluginV3(_Compiled, IPluginV3):
    """An IPluginV3 with its three capabilities."""

    def __init__(self, creator, handle, made_of):
        IPluginV3.__init__(self)
        self._take(creator, handle, made_of)
        self.plugin_name, self.plugin_version = creator.name, creator.plugin_version
        self.plugin_namespace = creator.plugin_namespace

    def get_fields_to_serialize(self):
        return _read(self._stored(), self._creator._table.size_bytes)


class _CompiledCreator:
    def _take(self, table, handle):
        self._table, self._handle = table, handle
        self.name, self.plugin_version, self.plugin_namespace = (
            table.text(handle, which).decode(errors="replace") for which in range(3)
        )
        self.field_names = _read(_bytes_of(table.fields, handle), table.size_bytes)

    def set_registered(self, is_registered):
        """In the registry of its library, which all others of the process look into."""
        self._table.set_state(self._handle, _REGISTERED if is_registered else _DEREGISTERED)

    def _created(self, name, fields, phase):
        written = _written(fields, self._table.size_bytes)
        made = self._table.create(self._handle, str(name).encode(), written, len(written), int(phase))
        return self._wrapped(made, ("camshaft_fields", _TEXT, [written.hex()]))

    def _restored(self, name, data):
        data = bytes(data)
        made = self._table.deserialize(self._handle, str(name).encode(), data, len(data))
        return self._wrapped(made, ("camshaft_stored", _TEXT, [data.hex()]))

    def _again(self, plugin):
        name, _, [digits] = plugin.attributes[0]
        data = bytes.fromhex(digits)
        if name == "camshaft_stored":
            return self._restored(self.name, data)
        return self._created(self.name, _read(data, self._table.size_bytes), TensorRTPhase.BUILD)

    def _wrapped(self, handle, made_of):
        """None where the creator made none, as TensorRT has it."""
        return self._KIND(self, handle, made_of) if handle else None


class CompiledCreator(_CompiledCreator, IPluginCreator):
    """An IPluginCreator in C++."""

    _KIND = CompiledPluginV2

    def __init__(self, table, handle):
        IPluginCreator.__init__(self)
        self._take(table, handle)

    def create_plugin(self, name, field_collection):
        return self._created(name, field_collection, TensorRTPhase.BUILD)

    def deserialize_plugin(self, name, serialized_plugin):
        return self._restored(name, serialized_plugin)


class CompiledCreatorV3(_CompiledCreator, IPluginCreatorV3One):
    """An IPluginCreatorV3One in C++."""

    _KIND = CompiledPluginV3

    def __init__(self, table, handle):
        IPluginCreatorV3One.__init__(self)
        self._take(table, handle)

    def create_plugin(self, name, field_collection, phase=TensorRTPhase.BUILD):
        return self._created(name, field_collection, phase)


class CompiledLibrary:
    """A library of the process that has creators."""

    def __init__(self, path, table):
        self.path, self._table, self._changes, self._known = path, table, 0, {}

    def has_changed(self):
        """Since creators() was called: also functions of the library may register some, or take them out."""
        return self._table.changes() != self._changes

    def owns(self, creator):
        return creator in self._known.values()

    def creators(self):
        """Those that are registered now, each as the same object as before."""
        self._changes = self._table.changes()
        return self._in_state(_REGISTERED)

    def take_out(self):
        """Deregisters its creators until register_again()."""
        for handle in self._handles(_REGISTERED):
            self._table.set_state(handle, _TAKEN_OUT)

    def register_again(self, is_free):
        """Those that were taken out with the library, but for names that others have now."""
        for creator in self._in_state(_TAKEN_OUT):
            if is_free((creator.name, creator.plugin_version, creator.plugin_namespace)):
                creator.set_registered(True)

    def _in_state(self, state):
        made = []
        for handle in self._handles(state):
            kind = CompiledCreatorV3 if self._table.is_v3(handle) else CompiledCreator
            if handle not in self._known:
                self._known[handle] = kind(self._table, handle)
            made.append(self._known[handle])
        return made

    def _handles(self, state):
        count = 16
        while True:
            handles = (_HANDLE * count)()
            capacity, count = count, self._table.list(state, handles, count)
            if count <= capacity:
                return list(handles[:count])


def mapped_files():
    """{path: [(begin, end)]} of files whose code this process has in its memory."""
    found = {}
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            words = line.rstrip("\n").split(maxsplit=5)
            if len(words) == 6 and "x" in words[1] and words[5].startswith("/"):
                begin, _, end = words[0].partition("-")
                found.setdefault(words[5], []).append((int(begin, 16), int(end, 16)))
    return found


def library_at(path, ranges):
    """The library that was loaded of this file, if it has creators; else None."""
    with contextlib.suppress(OSError, AttributeError):  # what is no library, and other libraries
        entry = getattr(ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_LAZY), _SYMBOL)
        at = ctypes.cast(entry, ctypes.c_void_p).value
        if any(begin <= at < end for begin, end in ranges):  # and not of a library that this one is linked with
            entry.restype = ctypes.POINTER(_Table)
            table = entry().contents
            if table.size >= ctypes.sizeof(_Table):
                return CompiledLibrary(path, table)
            warnings.warn(f"{path} was compiled with headers of an older Camshaft: compile it again", stacklevel=5)
    return None
