// Descriptions and views of tensors at the boundary of the library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "camshaft/dtype.h"

namespace camshaft {

/// An input or output of an engine.
struct TensorInfo {
  std::string name;
  DType dtype = DType::f32;
  /// Sizes in elements; -1 where the size is dynamic.
  std::vector<int64_t> dims;
  /// The same as text: numbers, symbols ("batch") or expressions of them ("4*width - 1").
  std::vector<std::string> dim_names;
};

/// Row-major dense elements somewhere in host memory; does not own them.
struct TensorView {
  DType dtype = DType::f32;
  std::vector<int64_t> dims;
  const void* data = nullptr;
  size_t bytes = 0;
};

}  // namespace camshaft
