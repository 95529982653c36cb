"""CUDA graphs where there is no GPU: what is put into a stream while it is captured is kept, and done when the graph is
launched. With a GPU the runtime does all this itself."""

import itertools

_captured = {}  # [call] by stream, while it is captured
_made = {}  # [call] of graphs, and of what was instantiated of them, by handle
_handles = itertools.count(1)


def record(stream, call):
    """Keeps a call instead of making it; False where the stream is not captured."""
    calls = _captured.get(stream)
    if calls is None:
        return False
    calls.append(call)
    return True


def begin(stream):
    """False where it is captured already, and for the default stream, which cannot be."""
    if stream == 0 or stream in _captured:
        return False
    _captured[stream] = []
    return True


def is_capturing(stream):
    return stream in _captured


def end(stream):
    """The handle of the graph; 0 where the stream is not captured."""
    calls = _captured.pop(stream, None)
    return 0 if calls is None else _kept(calls)


def instantiated(graph):
    """The handle of what can be launched; 0 for what is no graph."""
    return _kept(list(_made[graph])) if graph in _made else 0


def is_known(handle):
    return handle in _made


def launch(instance):
    """False for what is no handle."""
    if instance not in _made:
        return False
    for call in _made[instance]:
        call()
    return True


def forget(handle):
    return _made.pop(handle, None) is not None


def _kept(calls):
    handle = next(_handles)
    _made[handle] = calls
    return handle
