# ruff: noqa: F403, F405
"""Pools of memory, of the calls that stand in for CUDA's runtime: what is allocated from one is allocated like all else,
and the pool keeps what is asked of it."""

import enum
import itertools

from camshaft.tensorrt._cudart_memory import cudaMallocAsync
from camshaft.tensorrt._cudart_values import *


class cudaMemAllocationType(enum.IntEnum):
    """How memory is bound."""

    cudaMemAllocationTypeInvalid = 0
    cudaMemAllocationTypePinned = 1


class cudaMemAllocationHandleType(enum.IntEnum):
    """How other processes get at it."""

    cudaMemHandleTypeNone = 0
    cudaMemHandleTypePosixFileDescriptor = 1


class cudaMemLocationType(enum.IntEnum):
    """Where it lies."""

    cudaMemLocationTypeInvalid = 0
    cudaMemLocationTypeDevice = 1
    cudaMemLocationTypeHost = 2


class cudaMemPoolAttr(enum.IntEnum):
    """What a pool is asked, and told."""

    cudaMemPoolReuseFollowEventDependencies = 1
    cudaMemPoolReuseAllowOpportunistic = 2
    cudaMemPoolReuseAllowInternalDependencies = 3
    cudaMemPoolAttrReleaseThreshold = 4
    cudaMemPoolAttrReservedMemCurrent = 5
    cudaMemPoolAttrReservedMemHigh = 6
    cudaMemPoolAttrUsedMemCurrent = 7
    cudaMemPoolAttrUsedMemHigh = 8


class cudaMemLocation:
    """A device by its number."""

    def __init__(self):
        self.type, self.id = cudaMemLocationType.cudaMemLocationTypeInvalid, 0


class cudaMemPoolProps:
    """What a pool is made with."""

    def __init__(self):
        self.allocType = cudaMemAllocationType.cudaMemAllocationTypeInvalid
        self.handleTypes = cudaMemAllocationHandleType.cudaMemHandleTypeNone
        self.location = cudaMemLocation()
        self.maxSize = self.usage = 0


class cudaMemPool_t(int):
    """A pool's number."""


_DEFAULT = cudaMemPool_t(1)
_pools = {_DEFAULT: {}}  # attributes by pool
_numbers = itertools.count(2)


def _status(pool):
    known = pool in _pools
    return cudaError_t.cudaSuccess if known else cudaError_t.cudaErrorInvalidValue


def cudaMemPoolCreate(poolProps):
    pool = cudaMemPool_t(next(_numbers))
    _pools[pool] = {}
    return cudaError_t.cudaSuccess, pool


def cudaMemPoolDestroy(memPool):
    status = _status(memPool)
    if memPool != _DEFAULT:
        _pools.pop(memPool, None)
    return (status,)


def cudaMemPoolSetAttribute(memPool, attr, value):
    status = _status(memPool)
    if status == cudaError_t.cudaSuccess:
        _pools[memPool][cudaMemPoolAttr(attr)] = int(value)
    return (status,)


def cudaMemPoolGetAttribute(memPool, attr):
    return _status(memPool), _pools.get(memPool, {}).get(cudaMemPoolAttr(attr), 0)


def cudaMemPoolTrimTo(memPool, minBytesToKeep):
    return (_status(memPool),)


def cudaDeviceGetDefaultMemPool(device):
    return cudaError_t.cudaSuccess, _DEFAULT


cudaDeviceGetMemPool = cudaDeviceGetDefaultMemPool


def cudaDeviceSetMemPool(device, memPool):
    return (_status(memPool),)


def cudaMallocFromPoolAsync(size, memPool, stream):
    status = _status(memPool)
    return cudaMallocAsync(size, stream) if status == cudaError_t.cudaSuccess else (status, 0)
