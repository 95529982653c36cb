"""Launches of kernels that Triton and Numba compiled: what their own launchers add to the arguments."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from camshaft._plugin_kernels import DeviceArray, Launch, argument_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

# Bytes of a parameter of PTX.
_PTX_BYTES = {"8": 1, "16": 2, "32": 4, "64": 8}

# As numbers are passed, by Triton's names of types; truths are 32 bits.
_TRITON_TYPES = {
    **{f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{"i1": "int32", "u1": "uint32", "fp16": "float16", "fp32": "float32", "f32": "float32", "fp64": "float64"},
}


def triton_launch(kernel: Any, blocks: int | Sequence[int], arguments: Sequence[Any]) -> Launch:
    """A launch of what triton.compile() gives. `arguments`: of the parameters that are no constants of the kernel, in
    their order. Numbers get the types of the kernel's signature; threads and shared memory are the kernel's own; and the
    pointers to scratch memory that its version of Triton adds, and the kernel does not use, are null. Raises ValueError
    for what only Triton's launcher can do."""
    metadata = kernel.metadata
    name = metadata.name
    for field, what in (
        ("launch_cooperative_grid", "is launched with all blocks at once (launch_cooperative_grid)"),
        ("global_scratch_size", "needs scratch memory (global_scratch_size)"),
        ("profile_scratch_size", "needs scratch memory of a profiler (profile_scratch_size)"),
        ("tensordesc_meta", "takes tensor descriptors"),
    ):
        if getattr(metadata, field, None):
            raise ValueError(f"the Triton kernel '{name}' {what}, which is not supported")
    if getattr(metadata, "num_ctas", 1) != 1:
        raise ValueError(f"the Triton kernel '{name}' runs in clusters (num_ctas={metadata.num_ctas}): build it with 1")
    types = [kind for kind in kernel.src.signature.values() if kind != "constexpr"]
    if len(types) != len(arguments):
        raise ValueError(f"the Triton kernel '{name}' takes {len(types)} arguments, {len(arguments)} are given")
    packed = [_of_triton(name, i, kind, value) for i, (kind, value) in enumerate(zip(types, arguments, strict=True))]
    declared = ptx_parameters(kernel.asm["ptx"], name)
    # Two from Triton 3.4 on, one in 3.3, none before.
    scratch = len(declared) - len(packed)
    if not 0 <= scratch <= 2 or any(size != 8 for size in declared[len(packed) :]):
        raise ValueError(
            f"the Triton kernel '{name}' has {len(declared)} parameters for {len(packed)} arguments, which is unknown "
            "here: its version of Triton adds others than two pointers to scratch memory"
        )
    threads = metadata.num_warps * getattr(metadata, "warp_size", 32)
    return _checked(Launch(name, blocks, threads, [*packed, *[None] * scratch], metadata.shared), declared)


def numba_launch(
    ptx: str,
    blocks: int | Sequence[int],
    threads: int | Sequence[int],
    arguments: Sequence[Any],
    shared_bytes: int = 0,
    kernel: str | None = None,
) -> Launch:
    """A launch of the PTX that numba.cuda.compile(…, device=False, abi="numba", output="ptx") gives. Operands and results
    are arrays to such a kernel, and get the sizes and strides that it wants; numbers are packed as of any Launch.
    `kernel`: its name in the text; it may be left out where there is one."""
    names = re.findall(r"\.visible\s+\.entry\s+([\w$]+)\s*\(", ptx)
    if kernel is None and len(names) != 1:
        raise ValueError(f"the PTX has {len(names)} kernels ({', '.join(names)}): say which")
    name = names[0] if kernel is None else kernel
    packed: list[Any] = []
    for argument in arguments:
        packed.extend(_numba_array(argument) if isinstance(argument, DeviceArray) else [argument])
    return _checked(Launch(name, blocks, threads, packed, shared_bytes), ptx_parameters(ptx, name))


def _of_triton(kernel: str, index: int, kind: str, value: Any) -> Any:
    import numpy

    if kind.startswith("*"):
        if value is None or isinstance(value, DeviceArray):
            return value
        raise TypeError(f"argument {index} of the Triton kernel '{kernel}' is a pointer: an operand, a result or None")
    if isinstance(value, DeviceArray) or value is None:
        raise TypeError(f"argument {index} of the Triton kernel '{kernel}' is a number of the type {kind}")
    if kind == "bf16":
        bits = int(numpy.float32(value).view(numpy.uint32))
        return numpy.uint16((bits + 0x7FFF + (bits >> 16 & 1)) >> 16)
    if kind not in _TRITON_TYPES:
        raise TypeError(f"argument {index} of the Triton kernel '{kernel}' is {kind}, which is not supported")
    return numpy.dtype(_TRITON_TYPES[kind]).type(value)


def _numba_array(array: DeviceArray) -> list[Any]:
    """Numba's array: two pointers of its runtime, elements, bytes of one, the address, sizes, strides in bytes."""
    itemsize = _ITEM_BYTES.get(array.dtype)
    if itemsize is None:
        raise TypeError(f"Numba has no arrays of {array.dtype}")
    strides: list[int] = []
    step = itemsize
    for size in reversed(array.shape):
        strides.insert(0, step)
        step *= size
    return [None, None, array.size, itemsize, array, *array.shape, *strides]


_ITEM_BYTES = {
    **dict.fromkeys(("bool", "i8", "u8", "f8e4m3", "f8e5m2"), 1),
    **dict.fromkeys(("i16", "u16", "f16", "bf16"), 2),
    **dict.fromkeys(("i32", "u32", "f32"), 4),
    **dict.fromkeys(("i64", "u64", "f64"), 8),
}


def ptx_parameters(ptx: str, kernel: str) -> list[int]:
    """Bytes of each of a kernel's parameters."""
    entry = re.search(rf"\.entry\s+{re.escape(kernel)}\s*\(([^)]*)\)", ptx)
    if entry is None:
        raise ValueError(f"the PTX has no kernel '{kernel}'")
    sizes = []
    for parameter in entry.group(1).split(","):
        if not parameter.strip():
            continue
        found = re.search(r"\.param\s+(?:\.align\s+\d+\s+)?\.[a-z]+(8|16|32|64)\b[^\[]*(?:\[(\d+)\])?", parameter)
        if found is None:
            raise ValueError(f"a parameter of the kernel '{kernel}' is declared in a way that is unknown: {parameter}")
        sizes.append(_PTX_BYTES[found.group(1)] * int(found.group(2) or 1))
    return sizes


def _checked(launch: Launch, declared: list[int]) -> Launch:
    """Arguments of other sizes than the kernel's parameters would be read beyond their ends."""
    sizes = [len(argument_bytes(launch.kernel, i, a)) for i, a in enumerate(launch.arguments)]
    if sizes != declared:
        raise ValueError(
            f"the kernel '{launch.kernel}' has parameters of {declared} bytes, the arguments have {sizes}: give numbers "
            "of NumPy's types (numpy.int32(n)), and arrays of the rank that it was compiled for"
        )
    return launch
