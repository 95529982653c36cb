"""From PyTorch's modules to ONNX."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from camshaft._errors import UnsupportedError

if TYPE_CHECKING:
    from camshaft._types import Path

    _Output = TypeVar("_Output", bound=Path)


@overload
def export(
    module: Any,
    args: Any = (),
    output: None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
) -> bytes: ...
@overload
def export(
    module: Any,
    args: Any,
    output: _Output,
    *,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
) -> _Output: ...
def export(
    module: Any,
    args: Any = (),
    output: Path | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
) -> bytes | Path:
    """The ONNX model of a torch.nn.Module in evaluation mode, by torch.onnx.export: its bytes, for build(); or a file
    where `output` is a path, which is given back, with the weights in "<output>.data" where they are large.

    args, kwargs: example arguments. dynamic_shapes: as torch.export takes it, such as ({0: torch.export.Dim("batch")},);
    without it all sizes are those of the examples. The module is left in the mode that it was in.

    Raises UnsupportedError where the package torch, or what its exporter needs, is not installed, or where that cannot
    export the module; its own error is the cause."""
    try:
        import torch  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise UnsupportedError("export() needs PyTorch: pip install torch onnx onnxscript") from error
    args = args if isinstance(args, tuple) else (args,)
    was_training = module.training
    module.eval()
    try:
        program = torch.onnx.export(
            module,
            args,
            kwargs=kwargs,
            dynamic_shapes=dynamic_shapes,
            input_names=input_names,
            output_names=output_names,
            dynamo=True,
            verbose=False,
        )
        if output is not None:
            program.save(os.fspath(output))
            return output
        file = io.BytesIO()
        program.save(file)
        return file.getvalue()
    except ImportError as error:
        raise UnsupportedError(f"PyTorch's exporter is not complete ({error}): pip install onnx onnxscript") from error
    except Exception as error:
        raise UnsupportedError(f"PyTorch cannot export {type(module).__name__}: {error}") from error
    finally:
        module.train(was_training)
