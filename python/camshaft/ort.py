"""Camshaft as an execution provider of ONNX Runtime: one more line in a program that has sessions.

    import onnxruntime
    import camshaft.ort

    camshaft.ort.register()
    session = onnxruntime.InferenceSession(
        "model.onnx", providers=[("CamshaftExecutionProvider", {"threads": 4}), "CPUExecutionProvider"])

Options are those of camshaft.build() by their names ("tuning", "fp16", …), some of its own ("engine-cache", …), and the
names that TensorRT's provider has ("trt_fp16_enable", …): see docs/onnxruntime.md."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Union

from camshaft import _native

PROVIDER = "CamshaftExecutionProvider"

Provider = Union[str, tuple[str, Mapping[str, Any]]]


def library_path() -> str:
    """The library that ONNX Runtime loads: this module's own, so that there is one Camshaft in the process."""
    return _native.__file__


def register() -> None:
    """Makes the provider known to ONNX Runtime in this process, also by its name. Again is of no effect. Raises ImportError
    where onnxruntime is missing, or older than 1.24."""
    import onnxruntime

    if tuple(int(part) for part in onnxruntime.__version__.split(".")[:2]) < (1, 24):
        raise ImportError(
            f"ONNX Runtime {onnxruntime.__version__} is too old for Camshaft's execution provider: install 1.24 or later"
        )
    if not devices():
        onnxruntime.register_execution_provider_library(PROVIDER, library_path())
    _adapt(onnxruntime.InferenceSession)


def unregister() -> None:
    """The reverse. Sessions that have the provider keep it."""
    import onnxruntime

    create = onnxruntime.InferenceSession._create_inference_session
    onnxruntime.InferenceSession._create_inference_session = getattr(create, "_camshaft_before", create)
    if devices():
        onnxruntime.unregister_execution_provider_library(PROVIDER)


def devices() -> list[Any]:
    """The onnxruntime.OrtEpDevice that SessionOptions.add_provider_for_devices() takes; [] before register()."""
    import onnxruntime

    return [device for device in onnxruntime.get_ep_devices() if device.ep_name == PROVIDER]


def _adapt(session: Any) -> None:
    """Lets a session tell the provider its number of threads, which the plug-in interface does not show, and what is wrong
    with the provider's options be an error: without a word InferenceSession would go on without it."""
    create = session._create_inference_session
    if hasattr(create, "_camshaft_before"):
        return

    @functools.wraps(create)
    def create_session(
        self: Any, providers: Sequence[Provider] | None, provider_options: Any = None, *rest: Any, **more: Any
    ) -> Any:
        names = [provider if isinstance(provider, str) else provider[0] for provider in providers or ()]
        if PROVIDER not in names:
            return create(self, providers, provider_options, *rest, **more)
        self._enable_fallback = False
        threads = self._sess_options.intra_op_num_threads if self._sess_options is not None else 0
        if threads > 0 and provider_options is not None:
            provider_options = [
                {"threads": threads, **options} if name == PROVIDER else options
                for name, options in zip(names, provider_options)
            ]
        elif threads > 0:
            given = [{} if isinstance(provider, str) else provider[1] for provider in providers or ()]
            providers = [
                (name, {"threads": threads, **options} if name == PROVIDER else options)
                for name, options in zip(names, given)
            ]
        return create(self, providers, provider_options, *rest, **more)

    create_session._camshaft_before = create  # type: ignore[attr-defined]
    session._create_inference_session = create_session
