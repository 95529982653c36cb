# ruff: noqa: F403, F405
"""Graphs, of the calls that stand in for CUDA's runtime."""

import ctypes
import enum

from camshaft.tensorrt import _cuda, _graphs
from camshaft.tensorrt._cudart_values import *
from camshaft.tensorrt._cudart_values import _Address, _done, _made, _pointer


class cudaStreamCaptureMode(enum.IntEnum):
    """What else may be called while a stream is captured."""

    cudaStreamCaptureModeGlobal = 0
    cudaStreamCaptureModeThreadLocal = 1
    cudaStreamCaptureModeRelaxed = 2


class cudaStreamCaptureStatus(enum.IntEnum):
    """Whether a stream is captured."""

    cudaStreamCaptureStatusNone = 0
    cudaStreamCaptureStatusActive = 1
    cudaStreamCaptureStatusInvalidated = 2


class cudaGraph_t(int):
    """A graph's address."""

    def getPtr(self):
        return int(self)


class cudaGraphExec_t(cudaGraph_t):
    """The address of a graph that can be launched."""


def _status(good):
    return cudaError_t.cudaSuccess if good else cudaError_t.cudaErrorInvalidValue


def cudaStreamBeginCapture(stream, mode=cudaStreamCaptureMode.cudaStreamCaptureModeGlobal):
    if _cuda.has_gpu():
        return _done("cudaStreamBeginCapture", _pointer(stream), ctypes.c_int(int(mode)))
    return (cudaError_t.cudaSuccess if _graphs.begin(_cuda.address_of(stream)) else cudaError_t.cudaErrorIllegalState,)


def cudaStreamIsCapturing(stream):
    if _cuda.has_gpu():
        value = ctypes.c_int()
        status = _cuda.call("cudaStreamIsCapturing", _pointer(stream), ctypes.byref(value))
        return cudaError_t(status), cudaStreamCaptureStatus(value.value)
    return cudaError_t.cudaSuccess, cudaStreamCaptureStatus(int(_graphs.is_capturing(_cuda.address_of(stream))))


def cudaStreamEndCapture(stream):
    if _cuda.has_gpu():
        graph = _Address()
        status = _cuda.call("cudaStreamEndCapture", _pointer(stream), ctypes.byref(graph))
        return cudaError_t(status), cudaGraph_t(graph.value or 0)
    graph = _graphs.end(_cuda.address_of(stream))
    return (cudaError_t.cudaSuccess if graph else cudaError_t.cudaErrorIllegalState), cudaGraph_t(graph)


def cudaGraphInstantiate(graph, flags=0, *more):
    """`more`: what CUDA 11 had for messages."""
    if _cuda.has_gpu():
        number = ctypes.c_ulonglong(int(flags))
        return _made("cudaGraphInstantiateWithFlags", _Address, _pointer(graph), number, result=cudaGraphExec_t)
    instance = _graphs.instantiated(int(graph))
    return _status(instance), cudaGraphExec_t(instance)


def cudaGraphInstantiateWithFlags(graph, flags=0):
    return cudaGraphInstantiate(graph, flags)


def cudaGraphLaunch(graphExec, stream=0):
    if _cuda.has_gpu():
        return _done("cudaGraphLaunch", _pointer(graphExec), _pointer(stream))
    return (_status(_graphs.launch(int(graphExec))),)


def cudaGraphUpload(graphExec, stream=0):
    if _cuda.has_gpu():
        return _done("cudaGraphUpload", _pointer(graphExec), _pointer(stream))
    return (_status(_graphs.is_known(int(graphExec))),)


def cudaGraphDestroy(graph):
    return _done("cudaGraphDestroy", _pointer(graph)) if _cuda.has_gpu() else (_status(_graphs.forget(int(graph))),)


def cudaGraphExecDestroy(graphExec):
    if _cuda.has_gpu():
        return _done("cudaGraphExecDestroy", _pointer(graphExec))
    return (_status(_graphs.forget(int(graphExec))),)
