// Descriptions and views of tensors as callers of the runtime see them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/device_id.h"
#include "base/dtype.h"
#include "ir/tensor.h"

namespace camshaft {

/// An input or output of an engine.
struct TensorInfo {
  std::string name;
  DType dtype = DType::f32;
  /// Sizes in elements; -1 where the size is dynamic. Of a sequence its length; of an optional nothing; of a map 2.
  std::vector<int64_t> dims;
  /// The same as text: numbers, symbols ("batch") or expressions of them ("4*width - 1").
  std::vector<std::string> dim_names;
  /// The whole type as text: "f32[batch, 3]", "seq[n]<f32[?, 3]>" (? for sizes in which elements may differ), "opt<…>",
  /// "map<i64, f32>".
  std::string type;
  /// Of an output: the input whose memory it may be bound to, at its beginning; a run then updates that in place, and
  /// copies nothing. Empty: none.
  std::string aliased_input;
};

/// Row-major dense elements somewhere in memory; does not own them.
struct TensorView {
  DType dtype = DType::f32;
  std::vector<int64_t> dims;
  const void* data = nullptr;
  size_t bytes = 0;
  /// Of a sequence its values; of an optional one value, or none when it is empty; of a map its keys and its values.
  /// Containers have nothing else: data is null, dims may be left out.
  std::vector<TensorView> elements = {};
  DeviceId device = DeviceId::host;  ///< whose memory it is; containers and strings are the host's
};

/// Does not keep the tensor alive.
TensorView view_of(const Tensor& tensor);
/// Throws Error(invalid_argument) when the number of elements of a container or the bytes of a tensor are wrong.
Tensor copy_of(const TensorView& view);

}  // namespace camshaft
