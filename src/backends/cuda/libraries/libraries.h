// Finding and opening NVIDIA's libraries.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backends/cuda/driver/c_api.h"
#include "backends/cuda/libraries/blas_api.h"
#include "backends/cuda/libraries/dnn_api.h"
#include "backends/cuda/libraries/nccl_api.h"
#include "base/dynamic_library.h"

namespace camshaft::cuda {

/// One of them; `functions` are all there if and only if `problem` is empty.
template <class Functions>
struct Library {
  DynamicLibrary file;
  DynamicLibrary companion;  ///< that the file itself opens by name alone, from the same folder
  Functions functions;
  std::string version;  ///< of what was opened: "13.0"
  std::string problem;  ///< one line: why it cannot be used, and the way out
};

/// Opened at the first call, and kept.
const Library<api::Driver>& driver_library();
const Library<api::Nvrtc>& nvrtc_library();
/// Opening it takes 0.2 s.
const Library<api::Blas>& blas_library();

const Library<api::Dnn>& dnn_library();
const Library<api::Nccl>& nccl_library();

/// What tells one version of cuBLASLt from others, found without opening it: "libcublasLt.so.13 551653208", its file
/// and the bytes of that. "none" where there is none.
std::string blas_identity();
std::string dnn_identity();

/// Folders in which CUDA's libraries may lie, the most specific first: CUDA_HOME and CUDA_PATH, the `nvidia-*` wheels
/// of Python environments (this process's, VIRTUAL_ENV, CONDA_PREFIX, python3's, the user's and the system's),
/// /usr/local/cuda. A library that the process has loaded already comes before all of them.
std::vector<std::string> library_folders();

/// Says once for each library that it failed where it should have prepared something, or answered that it has not got
/// it: `what` failed, and which `file` it is.
void warn_of_refusal(std::string_view library, std::string_view file, std::string_view what);

}  // namespace camshaft::cuda
