"""Kernels of quickly deployable plugins that are compiled ahead of time: engines keep them, and run without Python."""

import re
import reprlib

from camshaft._foreign_launches import ptx_parameters
from camshaft.tensorrt._quick_sizes import SymExprs, SymInt8, SymInt16, SymInt32, SymIntExpr
from camshaft.tensorrt._quick_tensors import Shape

_INPUT, _OUTPUT, _SIZE, _BYTES = range(4)  # of camshaft_plugin_argument
_WIDTHS = ((SymInt8, 1), (SymInt16, 2), (SymInt32, 4))
_POINTER = 8


class KernelLaunchParams:
    """How a kernel is launched."""

    __slots__ = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "shared_mem")

    def __init__(self, grid_x=1, grid_y=1, grid_z=1, block_x=1, block_y=1, block_z=1, shared_mem=0):
        self.grid_x, self.grid_y, self.grid_z = grid_x, grid_y, grid_z
        self.block_x, self.block_y, self.block_z, self.shared_mem = block_x, block_y, block_z, shared_mem


def set_known(desc, ranges):
    """A description of expressions gets the sizes as numbers, too, -1 where the network leaves one open."""
    vars(desc).update(shape=Shape(ranges), format=ranges.desc.format)


def compiled_tactic(plugin_id, made, inputs, outputs):
    """What the native module takes for what an aot_impl function gave: (CUDA C++, module, [launch]). inputs, outputs: how
    many there are. Raises TypeError and ValueError for what it is not."""
    who = f"plugin '{plugin_id}': its aot_impl function gives"
    if not isinstance(made, tuple) or len(made) != 4:
        raise TypeError(f"{who} {reprlib.repr(made)}, not (name, compiled kernel, KernelLaunchParams, SymIntExprs)")
    name, kernel, params, extra = made
    for what, given, kinds in (
        ("name of the kernel", name, (str, bytes)),
        ("kernel", kernel, (str, bytes, bytearray)),
        ("launch", params, KernelLaunchParams),
        ("further arguments", extra, SymExprs),
    ):
        if not isinstance(given, kinds):
            kinds = kinds if isinstance(kinds, tuple) else (kinds,)
            names = " or ".join(kind.__name__ for kind in kinds)
            raise TypeError(f"{who} {reprlib.repr(given)} as {what}, which is {names}")
    name = name if isinstance(name, str) else name.decode(errors="backslashreplace")
    if not re.fullmatch(r"[\w$]+", name, re.ASCII):
        raise ValueError(f"{who} {reprlib.repr(name)} as name of the kernel, which has letters, digits, _ and $")
    module = kernel.encode() if isinstance(kernel, str) else bytes(kernel)
    if not module:
        raise ValueError(f"{who} a kernel without bytes")
    arguments = [(_INPUT, index, None, None, 0) for index in range(inputs)]
    arguments += [_argument(who, index, expr) for index, expr in enumerate(extra)]
    arguments += [(_OUTPUT, index, None, None, 0) for index in range(outputs)]
    arguments += [(_BYTES, 0, None, bytes(_POINTER), 0)] * _scratch(plugin_id, name, module, arguments)
    sizes = [_text(who, field, getattr(params, field)) for field in KernelLaunchParams.__slots__]
    return None, module, [(name, sizes, arguments)]


def _argument(who, index, expr):
    for kind, width in _WIDTHS:
        if isinstance(expr, kind):
            return _SIZE, 0, str(expr._expr._dim), None, width
    raise TypeError(f"{who} {expr!r} as further argument {index}: a SymInt32, SymInt16 or SymInt8 says how wide it is")


def _text(who, field, size):
    if isinstance(size, SymIntExpr):
        return str(size._expr._dim)
    if isinstance(size, bool) or not hasattr(size, "__index__"):
        raise TypeError(f"{who} {size!r} as {field}, which is an int or an expression of sizes")
    return str(size.__index__())


def _scratch(plugin_id, name, module, arguments):
    """How many pointers to scratch memory, which the kernel does not use, Triton has added behind the parameters. PTX
    alone says: arguments that do not fit its parameters would be read beyond their ends."""
    if not module.lstrip().startswith((b"//", b".version")):
        return 0
    declared = ptx_parameters(module.decode(errors="replace"), name)
    given = [argument[4] or _POINTER for argument in arguments]
    scratch = declared[len(given) :]
    if declared[: len(given)] != given or len(scratch) > 2 or any(size != _POINTER for size in scratch):
        raise ValueError(
            f"plugin '{plugin_id}': the kernel '{name}' has parameters of {declared} bytes, and is given the tensors that "
            f"come in, the further arguments and the tensors that go out, {given} bytes"
        )
    return len(scratch)
