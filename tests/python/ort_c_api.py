"""ONNX Runtime's C interface, for what its Python package does not have: functions by their names."""

import ctypes
import re
from pathlib import Path

import onnxruntime
from camshaft_cli import ROOT

TABLE = ROOT / "src/plugin/ort/slots.inc"
VERSION = 24


class Api:
    def __init__(self):
        [library] = (Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so*")
        self.library = ctypes.CDLL(str(library))
        base = self.library.OrtGetApiBase
        base.restype = ctypes.POINTER(ctypes.c_void_p)
        table = ctypes.CFUNCTYPE(ctypes.POINTER(ctypes.c_void_p), ctypes.c_uint32)(base()[0])
        self.table = table(VERSION)
        assert self.table, f"this ONNX Runtime has no version {VERSION} of the interface"
        text = "".join(line for line in TABLE.read_text().splitlines() if not line.startswith("//"))
        self.slots = {name.lstrip("-$?"): place for place, name in enumerate(re.findall(r'"([^"]+)"', text))}

    def plain(self, name, *arguments, result=ctypes.c_void_p):
        """Of a function that gives no status."""
        types = [type(argument) for argument in arguments]
        return ctypes.CFUNCTYPE(result, *types)(self.table[self.slots[name]])(*arguments)

    def call(self, name, *arguments):
        status = self.plain(name, *arguments)
        if status:
            message = self.plain("GetErrorMessage", ctypes.c_void_p(status), result=ctypes.c_char_p).decode()
            self.plain("ReleaseStatus", ctypes.c_void_p(status), result=None)
            raise RuntimeError(f"{name}: {message}")

    def make(self, name, *arguments):
        """The object that a function gives through its last argument."""
        made = ctypes.c_void_p()
        self.call(name, *arguments, ctypes.pointer(made))
        return made


def texts(*values):
    return (ctypes.c_char_p * len(values))(*(value.encode() for value in values))
