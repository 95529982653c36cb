"""Stands in for cuda.nvrtc (cuda.bindings.nvrtc) where CUDA Python is not installed: its errors, which programs look at.
Nothing is compiled."""

import enum


class nvrtcResult(enum.IntEnum):
    """Numbers of errors, as NVRTC has them."""

    NVRTC_SUCCESS = 0
    NVRTC_ERROR_OUT_OF_MEMORY = 1
    NVRTC_ERROR_PROGRAM_CREATION_FAILURE = 2
    NVRTC_ERROR_INVALID_INPUT = 3
    NVRTC_ERROR_INVALID_PROGRAM = 4
    NVRTC_ERROR_INVALID_OPTION = 5
    NVRTC_ERROR_COMPILATION = 6
    NVRTC_ERROR_INTERNAL_ERROR = 11


def nvrtcGetErrorString(result):
    return nvrtcResult.NVRTC_SUCCESS, nvrtcResult(int(result)).name.encode()


def nvrtcVersion():
    return nvrtcResult.NVRTC_SUCCESS, 12, 0


def nvrtcCreateProgram(src, name, numHeaders, headers, includeNames):
    raise NotImplementedError(
        "nvrtcCreateProgram: kernels cannot be compiled by what stands in for CUDA Python. With a GPU, install "
        "cuda-python; or make the kernel an operator of the model (camshaft.plugin)"
    )
