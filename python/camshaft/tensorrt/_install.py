"""In the place of the packages that programs for TensorRT import."""

import importlib.util
import os
import sys
import types

from camshaft.tensorrt import _cuda


def install():
    """From now on `import tensorrt` gives camshaft.tensorrt; where they are not installed, `cuda` (CUDA Python) and
    `pycuda` are stand-ins; and programs that load libcudart.so from LD_LIBRARY_PATH find one where there is no GPU."""
    ours = sys.modules["camshaft.tensorrt"]
    for name in ("tensorrt", "tensorrt.tensorrt", "tensorrt_bindings", "tensorrt_lean", "tensorrt_dispatch"):
        sys.modules[name] = ours
    sys.modules["tensorrt.plugin"] = ours.plugin
    sys.modules["tensorrt.plugin.op"] = ours.plugin.op
    _stand_in_for_cuda()
    _stand_in_for_pycuda()
    if not _cuda.has_gpu():
        paths = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
        if str(_cuda.FOLDER) not in paths:
            os.environ["LD_LIBRARY_PATH"] = os.pathsep.join([str(_cuda.FOLDER), *filter(None, paths)])
        # The variable serves child processes and what reads it. This process gets the library by its name once it is
        # loaded.
        _cuda.library()


def _is_usable(name):
    """Whether a package is there, or stands in already. One that is there for a GPU does not serve without one."""
    if name in sys.modules:
        return True
    try:
        return _cuda.has_gpu() and importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # of the package around it
        return False


def _module(name, source=None):
    module = types.ModuleType(name, None if source is None else source.__doc__)
    if source is not None:
        module.__dict__.update({key: value for key, value in vars(source).items() if not key.startswith("_")})
    module.__getattr__ = lambda wanted: _refuse(name, wanted)
    sys.modules[name] = module
    return module


def _refuse(module, wanted):
    if wanted.startswith("__"):  # Python's own questions
        raise AttributeError(f"module '{module}' has no attribute '{wanted}'")
    package = "pycuda" if module.startswith("pycuda") else "cuda-python"
    raise AttributeError(
        f"{module}.{wanted} is not there: camshaft.tensorrt stands in for the package, with what programs call beside "
        f"TensorRT. With a GPU, install {package} for it"
    )


def _stand_in_for_cuda():
    """Newer versions of CUDA Python have `cuda.bindings` alone: then the old names stand for these."""
    if _is_usable("cuda.cudart"):
        return
    if _is_usable("cuda.bindings.runtime"):
        import cuda
        from cuda.bindings import driver, nvrtc, runtime

        sys.modules["cuda.cudart"] = cuda.cudart = runtime
        sys.modules["cuda.cuda"] = cuda.cuda = driver
        sys.modules["cuda.nvrtc"] = cuda.nvrtc = nvrtc
        return
    from camshaft.tensorrt import cuda_driver, cuda_nvrtc, cudart

    package, bindings = _module("cuda"), _module("cuda.bindings")
    package.__path__ = bindings.__path__ = []
    package.bindings = bindings
    package.cudart, package.cuda = _module("cuda.cudart", cudart), _module("cuda.cuda", cuda_driver)
    package.nvrtc = _module("cuda.nvrtc", cuda_nvrtc)
    bindings.runtime, bindings.driver, bindings.nvrtc = (
        _module("cuda.bindings.runtime", cudart),
        _module("cuda.bindings.driver", cuda_driver),
        _module("cuda.bindings.nvrtc", cuda_nvrtc),
    )


class _NoKernels:
    """pycuda.compiler.SourceModule, which many programs import and few use."""

    def __init__(self, *arguments, **named):
        raise NotImplementedError(
            "pycuda.compiler.SourceModule: kernels cannot be compiled by what stands in for PyCUDA. With a GPU, install "
            "pycuda; or make the kernel an operator of the model (camshaft.plugin)"
        )


def _stand_in_for_pycuda():
    if _is_usable("pycuda"):
        return
    from camshaft.tensorrt import pycuda_driver, pycuda_gpuarray

    package = _module("pycuda")
    package.__path__ = []
    package.VERSION = (2024, 1)
    package.driver = _module("pycuda.driver", pycuda_driver)
    package._driver = _module("pycuda._driver", pycuda_driver)  # by which programs import types
    package.gpuarray = _module("pycuda.gpuarray", pycuda_gpuarray)
    package.compiler = _module("pycuda.compiler")
    package.compiler.SourceModule = _NoKernels
    package.tools = _module("pycuda.tools")
    package.tools.DeviceMemoryPool = pycuda_driver.MemoryPool
    package.tools.PageLockedMemoryPool = pycuda_driver.PageLockedMemoryPool
    package.tools.make_default_context = lambda make=None: pycuda_driver.Device(0).make_context()
    package.tools.clear_context_caches = lambda: None
    for name in ("autoinit", "autoprimaryctx"):
        made = _module(f"pycuda.{name}")
        made.device = pycuda_driver.Device(0)
        made.context = pycuda_driver.Context(0)
        setattr(package, name, made)
