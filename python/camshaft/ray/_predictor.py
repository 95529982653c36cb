"""What Ray Data's actors call on their batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from camshaft._errors import InvalidArgumentError
from camshaft._values import _NUMPY
from camshaft.ray._engines import Source, load


class Predictor:
    """Runs an engine on batches of columns: `dataset.map_batches(Predictor, fn_constructor_args=(engine,), …)`. Rows that an
    actor had not finished when it died are given to another by Ray."""

    def __init__(
        self,
        engine: Source,
        *,
        columns: Mapping[str, str] | None = None,
        keep: list[str] | None = None,
        device: str | None = None,
        threads: int = 0,
    ) -> None:
        """engine: what put() gave, or a path that every node has.
        columns: {input: column} for inputs that are not called as their columns are.
        keep: columns that are handed on beside the outputs; without it all that are no input.
        device: as Engine takes it; Ray shows an actor the GPUs that it was given alone, so that "cuda" is right there.
        threads: of a run on the CPU; 0: as many as the actor has CPUs (num_cpus), or one."""
        self.engine = load(engine, device)
        self._columns = {info.name: (columns or {}).get(info.name, info.name) for info in self.engine.inputs}
        if unknown := (columns or {}).keys() - self._columns.keys():
            raise InvalidArgumentError(f"the engine has no input {', '.join(map(repr, sorted(unknown)))}")
        self._keep = keep
        self._context = self.engine.create_context(threads or own_cpus())

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """{output: array}, and the columns that are kept."""
        import numpy

        inputs = {}
        for info in self.engine.inputs:
            column = self._columns[info.name]
            if column not in batch:
                raise InvalidArgumentError(
                    f"there is no column '{column}' for the input '{info.name}'; the batch has {', '.join(batch)}"
                )
            inputs[info.name] = array_of(batch[column], info)
        outputs = {name: numpy.from_dlpack(array).copy() for name, array in self._context.run(inputs).items()}
        used = set(self._columns.values())
        kept = [name for name in batch if name not in used] if self._keep is None else self._keep
        return {**{name: batch[name] for name in kept}, **outputs}


def array_of(values: Any, info: Any) -> Any:
    """A column as the engine's input takes it: rows of equal shape, of the input's type where no number changes by that."""
    import numpy

    array = numpy.asarray(values)
    if array.dtype == object and info.dtype != "string":  # rows that are arrays, or lists
        array = numpy.stack([numpy.asarray(row) for row in array])
    wanted = _NUMPY.get(info.dtype)
    if wanted is None or array.dtype == wanted:
        return numpy.ascontiguousarray(array)
    if not numpy.can_cast(array.dtype, wanted, "same_kind"):
        raise InvalidArgumentError(f"input '{info.name}' is {info.type}, and its column {array.dtype}")
    return numpy.ascontiguousarray(array, wanted)


def own_cpus() -> int:
    """What Ray gave this process; 0 outside of its workers."""
    import ray

    if not ray.is_initialized() or ray.get_runtime_context().worker.mode != ray.WORKER_MODE:
        return 0
    return max(1, int(ray.get_runtime_context().get_assigned_resources().get("CPU", 1)))
