"""Camshaft as an execution provider of ONNX Runtime: one more line in a program that has sessions.

    import onnxruntime
    import camshaft.ort

    camshaft.ort.register()
    session = onnxruntime.InferenceSession(
        "model.onnx", providers=[("CamshaftExecutionProvider", {"threads": 4}), "CPUExecutionProvider"])

"CamshaftCUDAExecutionProvider" is the one whose tensors are on a GPU: what sessions bind there is read and written in
place. Options are those of camshaft.build() by their names ("tuning", "fp16", …), some of its own ("engine-cache", …), and the
names that TensorRT's provider has ("trt_fp16_enable", …): see docs/onnxruntime.md."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, Union

from camshaft import _native

PROVIDER = "CamshaftExecutionProvider"
GPU_PROVIDER = "CamshaftCUDAExecutionProvider"
_OURS = (PROVIDER, GPU_PROVIDER)

Provider = Union[str, tuple[str, Mapping[str, Any]]]

# Names of options that were set on a session's options, for versions in which those choose the provider.
_options_of: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()


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
    _adapt(onnxruntime)


def unregister() -> None:
    """The reverse. Sessions that have the provider keep it."""
    import onnxruntime

    create = onnxruntime.InferenceSession._create_inference_session
    onnxruntime.InferenceSession._create_inference_session = getattr(create, "_camshaft_before", create)
    if devices():
        onnxruntime.unregister_execution_provider_library(PROVIDER)


def devices(provider: str = PROVIDER) -> list[Any]:
    """The onnxruntime.OrtEpDevice of a provider that SessionOptions.add_provider_for_devices() takes: of GPU_PROVIDER one
    for each GPU, in CUDA's order. [] before register()."""
    import onnxruntime

    return [device for device in onnxruntime.get_ep_devices() if device.ep_name == provider]


def _adapt(onnxruntime: Any) -> None:
    """Lets a session tell the provider its number of threads, which the plug-in interface does not show, and what is wrong
    with the provider's options be an error: without a word InferenceSession would go on without it. Older versions know no
    names of plug-ins; there the session's options choose the provider."""
    create = onnxruntime.InferenceSession._create_inference_session
    if hasattr(create, "_camshaft_before"):
        return
    knows_plugins = PROVIDER in onnxruntime.get_available_providers()

    @functools.wraps(create)
    def create_session(
        self: Any, providers: Sequence[Provider] | None, provider_options: Any = None, *rest: Any, **more: Any
    ) -> Any:
        names = [provider if isinstance(provider, str) else provider[0] for provider in providers or ()]
        if not set(_OURS) & set(names):
            return create(self, providers, provider_options, *rest, **more)
        self._enable_fallback = False
        if provider_options is None:
            provider_options = [{} if isinstance(provider, str) else provider[1] for provider in providers or ()]
        if len(names) != len(provider_options):
            raise ValueError("'providers' and 'provider_options' should be the same length if both are given.")
        if self._sess_options is None:
            self._sess_options = onnxruntime.SessionOptions()
        threads = self._sess_options.intra_op_num_threads
        if threads > 0:
            provider_options = [
                {"threads": threads, **options} if name in _OURS else options
                for name, options in zip(names, provider_options)
            ]
        chosen = list(zip(names, provider_options))
        if knows_plugins and not any(name in _OURS and _number_of(options) for name, options in chosen):
            return create(self, chosen, None, *rest, **more)
        self._fallback_providers = ["CPUExecutionProvider"]
        _choose(onnxruntime, self._sess_options, chosen)
        return create(self, None, None, *rest, **more)

    create_session._camshaft_before = create  # type: ignore[attr-defined]
    onnxruntime.InferenceSession._create_inference_session = create_session


def _number_of(options: Mapping[str, Any]) -> int:
    """Of the GPU that the options name. By a provider's name ONNX Runtime takes the device of that number, which is the
    CPU's for PROVIDER, or else the first."""
    named = str(options.get("device", f"cuda:{options.get('device_id', 0)}"))
    kind, _, number = named.partition(":")
    return int(number) if kind == "cuda" and number.isdecimal() else 0


def _choose(onnxruntime: Any, session_options: Any, chosen: list[tuple[str, Mapping[str, Any]]]) -> None:
    """Puts the providers into the session's options, but for the CPU's at the end, which is always there. Options that have
    been used before have the provider; then only what it is asked changes, an empty text being the default."""
    before = _options_of.get(session_options)
    for name, given in chosen:
        options = {str(key): str(value) for key, value in given.items()}
        if name in _OURS and before is not None:
            for key in before - set(options):
                session_options.add_session_config_entry(f"ep.{name.lower()}.{key}", "")
            for key, value in options.items():
                session_options.add_session_config_entry(f"ep.{name.lower()}.{key}", value)
            before.update(options)
        elif before is None and not (name == "CPUExecutionProvider" and name == chosen[-1][0]):
            number = _number_of(options) if name == GPU_PROVIDER else 0
            found = devices(name)[number : number + 1]
            if not found and name == GPU_PROVIDER:
                raise ValueError(f"there is no GPU {number}: {name} has {len(devices(name))}")
            if not found:
                raise ValueError(f"ONNX Runtime has no device for the provider '{name}' beside {PROVIDER}")
            session_options.add_provider_for_devices(found, options)
    if before is None:
        _options_of[session_options] = {str(key) for name, given in chosen if name in _OURS for key in given}
