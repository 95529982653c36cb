"""Types of arguments and results, for checkers and editors; at run time there is no such module."""

import os
from collections.abc import Callable, Mapping, Sequence
from types import EllipsisType
from typing import Any, Literal, Protocol, SupportsIndex

from typing_extensions import CapsuleType, TypeAlias

from camshaft._calibration import Calibration
from camshaft._native import Native as Native
from camshaft._network import Network
from camshaft._options import BuildOptions
from camshaft._values import Value

class SupportsDLPack(Protocol):
    """An array of NumPy, PyTorch, JAX, CuPy, …, or an output that a context keeps."""

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __dlpack_device__(self) -> tuple[Any, Any]: ...

class SerializesToString(Protocol):
    """An onnx.ModelProto."""

    def SerializeToString(self) -> bytes: ...

Capsule: TypeAlias = CapsuleType
Path: TypeAlias = str | os.PathLike[str]
Model: TypeAlias = Path | bytes | bytearray | memoryview | SerializesToString | Network
Shape: TypeAlias = Sequence[SupportsIndex]
InputValue: TypeAlias = SupportsDLPack | Sequence[Any] | Mapping[Any, Any] | str | None
"""An array; of texts a NumPy array of str or bytes; a list for a sequence, a dict for a map, None for an optional that is
empty. Of the input "lora", an adapter by its name."""
Inputs: TypeAlias = Mapping[str, InputValue]
Outputs: TypeAlias = dict[str, Any]
"""{name: NumPy array}; of a sequence a list, of a map a dict, of an empty optional None"""
Profile: TypeAlias = Mapping[str, Sequence[Shape] | Mapping[str, Shape]]
"""{input: (smallest, usual, largest shape)}, or {input: {"min", "opt", "max"}} as Engine.profiles has it"""
Precision: TypeAlias = Literal["fp32", "fp16", "bf16", "tf32", "int8", "best"]
Progress: TypeAlias = bool | Callable[[str, float], object]
"""True for a bar, or a function of the stage and how far it is, from 0 to 1."""
Record: TypeAlias = dict[str, Any]
"""What the library says in JSON."""

DType: TypeAlias = Any
"""NumPy's, PyTorch's, or a name, as "f32"."""
Operand: TypeAlias = Value | SupportsDLPack | float | str | bytes | Sequence[Any]
"""A value of a network, or what becomes a constant in it."""
Names: TypeAlias = int | Sequence[str | None] | None
"""How many results a node has, or their names."""
Body: TypeAlias = Network | Callable[..., Any]
"""A body of If, Loop or Scan: a subgraph(), or a function of (body, *values) that gives its results."""
Index: TypeAlias = Value | slice | SupportsIndex | None | EllipsisType

class BuildArguments(BuildOptions, total=False):
    """The keywords of build() but for its inputs."""

    output: Path | None
    profiles: Profile | Sequence[Profile] | None
    shapes: Mapping[str, Shape] | None
    precision: Precision | Sequence[Precision]
    calibration: Calibration | Path | None
    folder: Path | None
    progress: Progress | None
