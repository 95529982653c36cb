// Tensors of a model as typed bytes, wherever the file keeps them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "onnx/external_files.h"
#include "onnx/proto.h"

namespace camshaft::onnx {

/// The elements of a tensor, row-major and little-endian, 4-bit and 2-bit types packed with the first in a byte's
/// low bits, bool as 0 or 1.
struct TensorData {
  DType dtype = DType::f32;
  std::vector<int64_t> dims;          ///< all >= 0
  int64_t count = 1;                  ///< elements: the product of dims
  std::span<const std::byte> bytes;   ///< exactly byte_size(dtype, count); not aligned; empty for strings
  std::vector<std::string> strings;   ///< dtype string: exactly `count`
  std::shared_ptr<const void> owner;  ///< keeps `bytes` alive: the model's storage, an external file, or a buffer
};

/// Decodes the tensors of one model; keeps its external files mapped while it lives.
class TensorReader {
 public:
  explicit TensorReader(const ModelProto& model);

  /// Copies only what the file does not hold as bytes (float_data and the like). `role` names the tensor in messages
  /// when it has no name of its own. Throws Error(invalid_model) when the data is missing, of the wrong length for
  /// dims, in a field that the data type does not use, or outside the model's folder; Error(unsupported) for element
  /// types that DType lacks; Error(io) when an external file cannot be read.
  TensorData read(const TensorProto& tensor, const std::string& role = "tensor");

  /// The dense form, zeros included. Throws as read() does, and Error(unsupported) for strings, packed types and more
  /// than 4 GiB.
  TensorData read(const SparseTensorProto& sparse, const std::string& role = "sparse tensor");

 private:
  std::string file_;
  std::shared_ptr<const void> storage_;
  ExternalFiles external_files_;
};

/// The product of `dims`, which are checked to be at most 64, each >= 0, and to fit; zero-sized dims do not hide an
/// overflow of the others. `where` begins the message of Error(invalid_model).
int64_t checked_element_count(const std::vector<int64_t>& dims, std::string_view where);

}  // namespace camshaft::onnx
