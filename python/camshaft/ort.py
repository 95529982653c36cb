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
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, Union

from camshaft import _native

PROVIDER = "CamshaftExecutionProvider"
_PREFIX = f"ep.{PROVIDER.lower()}."
# ONNX Runtime's plug-in interface has what is needed from here on.
_OLDEST = (1, 24)

Provider = Union[str, tuple[str, Mapping[str, Any]]]

# Names of options that were set on a session's options: they may be used for another session.
_options_of: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()


def library_path() -> str:
    """The library that ONNX Runtime loads: this module's own, so that there is one Camshaft in the process."""
    return _native.__file__


def register() -> None:
    """Makes the provider known to ONNX Runtime in this process, and its name to `providers` of InferenceSession. Again is of
    no effect. Raises ImportError where onnxruntime is missing or older than 1.24."""
    import onnxruntime

    version = tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])
    if version < _OLDEST:
        raise ImportError(
            f"ONNX Runtime {onnxruntime.__version__} is too old for Camshaft's execution provider: install 1.24 or later"
        )
    if not devices():
        onnxruntime.register_execution_provider_library(PROVIDER, library_path())
    _adapt(onnxruntime)


def unregister() -> None:
    """The reverse. Sessions that use the provider must be gone."""
    import onnxruntime

    _restore(onnxruntime)
    if devices():
        onnxruntime.unregister_execution_provider_library(PROVIDER)


def devices() -> list[Any]:
    """The onnxruntime.OrtEpDevice that SessionOptions.add_provider_for_devices() takes; [] before register()."""
    import onnxruntime

    return [device for device in onnxruntime.get_ep_devices() if device.ep_name == PROVIDER]


def _adapt(onnxruntime: Any) -> None:
    """InferenceSession gives the provider its number of threads, which the plug-in interface does not show. Older versions,
    whose `providers` have those alone that are compiled in, choose it by session options."""
    session, available = onnxruntime.InferenceSession, onnxruntime.get_available_providers
    create = session._create_inference_session
    if hasattr(create, "_camshaft_before"):
        return
    knows_plugins = PROVIDER in available()

    @functools.wraps(create)
    def create_session(
        self: Any, providers: Sequence[Provider] | None, provider_options: Any = None, *rest: Any, **more: Any
    ) -> Any:
        if not providers or PROVIDER not in map(_name_of, providers):
            return create(self, providers, provider_options, *rest, **more)
        if self._sess_options is None:
            self._sess_options = onnxruntime.SessionOptions()
        # What is wrong with the provider's options is an error, and no session without it.
        self._enable_fallback = False
        chosen = _with_options(providers, provider_options)
        threads = self._sess_options.intra_op_num_threads
        if threads > 0:
            chosen = [
                (name, {"threads": str(threads), **options}) if name == PROVIDER else (name, options)
                for name, options in chosen
            ]
        if knows_plugins:
            return create(self, chosen, None, *rest, **more)
        _choose(onnxruntime, self._sess_options, chosen)
        return create(self, None, None, *rest, **more)

    create_session._camshaft_before = create  # type: ignore[attr-defined]
    session._create_inference_session = create_session
    if knows_plugins:
        return

    @functools.wraps(available)
    def available_providers() -> list[str]:
        return [*available(), PROVIDER]

    available_providers._camshaft_before = available  # type: ignore[attr-defined]
    onnxruntime.get_available_providers = available_providers


def _restore(onnxruntime: Any) -> None:
    for owner, name in (
        (onnxruntime.InferenceSession, "_create_inference_session"),
        (onnxruntime, "get_available_providers"),
    ):
        before = getattr(getattr(owner, name), "_camshaft_before", None)
        if before is not None:
            setattr(owner, name, before)


def _name_of(provider: Provider) -> str:
    return provider if isinstance(provider, str) else provider[0]


def _with_options(
    providers: Sequence[Provider], provider_options: Sequence[Mapping[str, Any]] | None
) -> list[tuple[str, dict[str, str]]]:
    """Each provider with its options as text, in the order of precedence."""
    if provider_options is not None and len(providers) != len(provider_options):
        raise ValueError("'providers' and 'provider_options' should be the same length if both are given.")
    chosen = []
    for i, provider in enumerate(providers):
        options = {} if isinstance(provider, str) else provider[1]
        if provider_options is not None:
            options = provider_options[i]
        chosen.append((_name_of(provider), {str(key): str(value) for key, value in options.items()}))
    return chosen


def _choose(onnxruntime: Any, session_options: Any, chosen: list[tuple[str, dict[str, str]]]) -> None:
    """Puts the providers into the session's options, but for the CPU's at the end, which is always there. Options that have
    been used before have the provider; then only what it is asked changes, an empty text being the default."""
    before = _options_of.get(session_options)
    for name, options in chosen:
        if name == PROVIDER and before is not None:
            for key in before - set(options):
                session_options.add_session_config_entry(_PREFIX + key, "")
            for key, value in options.items():
                session_options.add_session_config_entry(_PREFIX + key, value)
            before.update(options)
        elif before is None and not (name == "CPUExecutionProvider" and name == chosen[-1][0]):
            found = [device for device in onnxruntime.get_ep_devices() if device.ep_name == name][:1]
            if not found:
                raise ValueError(f"ONNX Runtime has no device for the provider '{name}' beside {PROVIDER}")
            session_options.add_provider_for_devices(found, options)
    if before is None:
        _options_of[session_options] = {key for name, options in chosen if name == PROVIDER for key in options}
