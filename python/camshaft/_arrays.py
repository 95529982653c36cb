"""Arrays between the library and NumPy, PyTorch, CuPy or whatever else speaks DLPack."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from camshaft import _native

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from camshaft._engine import Context
    from camshaft._types import Capsule, Shape

CPU, _CUDA = 1, 2  # of DLPack
DLPACK = (1, 1)  # the version that is understood, which allows arrays that may not be written


def device_name(ordinal: int) -> str:
    return "cpu" if ordinal < 0 else f"cuda:{ordinal}"


def capsule_of(array: Any, what: str = "") -> Capsule:
    """The DLPack capsule of an array; a TypeError, which begins with `what` it is for, for what is none. Arrays on a GPU
    are taken as they are: work is done in the order of its stream."""
    place = f"{what}: " if what else ""
    export = getattr(array, "__dlpack__", None)
    if export is None:
        raise TypeError(f"{place}{type(array).__name__} has no __dlpack__: give an array of NumPy, PyTorch, CuPy, …")
    options: dict[str, Any] = {} if array.__dlpack_device__()[0] == CPU else {"stream": -1}
    try:
        try:
            return export(max_version=DLPACK, **options)
        except TypeError:
            return export(**options)
    except BufferError as error:  # of NumPy, for elements that are objects, and others that DLPack has no name for
        kind = getattr(array, "dtype", type(array).__name__)
        raise TypeError(f"{place}an array of {kind} cannot be taken as it is: {error}") from error


class Exported:
    """A host's tensor of the library's, for whatever takes DLPack: `make` gives its capsule."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[], Capsule]) -> None:
        self._make = make

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU, 0

    def __dlpack__(self, **options: Any) -> Capsule:
        return self._make()


class Array:
    """An output that a context keeps, on the host or on the GPU: np.from_dlpack(array), torch.from_dlpack(array), … Its
    memory is written again by the context's next run."""

    def __init__(self, context: Context, name: str) -> None:
        self._context = context
        self._name = name
        self.dtype, dims, self._ordinal = _native.output(context._context, name)
        self.shape = tuple(dims)
        self.device = device_name(self._ordinal)
        self.on_device = self._ordinal >= 0

    def __dlpack_device__(self) -> tuple[int, int]:
        return (_CUDA, self._ordinal) if self.on_device else (CPU, 0)

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Capsule:
        """`stream`: the consumer's. What was enqueued into another one is waited for."""
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"output '{self._name}' is on another device and is not copied")
        if self.on_device and stream is not None and stream != -1:
            self._context._finish_for(0 if stream == 1 else stream)  # 1: the default stream
        return _native.output_dlpack(self._context._context, self._name)

    def __repr__(self) -> str:
        return f"<camshaft.Array {self.dtype}{list(self.shape)} on {self.device if self.on_device else 'the host'}>"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """For np.asarray(): a view of the memory, on the host alone."""
        import numpy

        array: NDArray[Any] = numpy.from_dlpack(self)
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError(f"output '{self._name}' is {array.dtype}: as {numpy.dtype(dtype)} it needs a copy")
            return array.astype(dtype)
        return array.copy() if copy else array


class Memory:
    """Memory that a program has only the address of, on the host or on a GPU, as an array: row-major elements of a
    `dtype` ("f32", …), which stay there as long as this is used. np.from_dlpack(memory), context.set_input("x", memory)."""

    def __init__(self, address: int, dtype: str, shape: Shape, device: str = "cpu", owner: Any = None) -> None:
        """`device`: "cpu", "cuda" (the first GPU) or "cuda:1". `owner`: what holds the memory, where it shall live as long."""
        self._owner = owner
        self.address, self.dtype, self.device = int(address), dtype, str(device)
        self.shape = tuple(int(size) for size in shape)
        kind, _, number = self.device.partition(":")
        self._ordinal = -1 if kind == "cpu" else int(number or 0)

    @classmethod
    def of(cls, array: Array) -> Memory:
        """Where an output lies that a context keeps."""
        address = _native.output_address(array._context._context, array._name)
        return cls(address, array.dtype, array.shape, array.device)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (CPU, 0) if self._ordinal < 0 else (_CUDA, self._ordinal)

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Capsule:
        """`stream` is not waited for: work is done in the order of the caller's."""
        return _native.dlpack_of_address(self.address, self.dtype, self.shape, self._ordinal, self)

    def __repr__(self) -> str:
        return f"<camshaft.Memory {self.dtype}{list(self.shape)} at {self.address:#x} on {self.device}>"
