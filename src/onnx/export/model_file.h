// Models as files, with large tensors beside them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "onnx/proto.h"

namespace camshaft::onnx {

struct ModelFileOptions {
  /// Initializers of at least so many bytes lie in the file "<name>.data" beside the model. Not given: all of at least
  /// 1 KiB do where the model would exceed the 2 GiB that protobuf reads, and none otherwise.
  std::optional<uint64_t> external_from;
};

/// Writes a model, and the data beside it first: what was there is replaced as a whole when all has been written.
/// Throws Error(io) naming the file. Returns the bytes of both.
uint64_t write_model(const ModelProto& model, const std::filesystem::path& file, const ModelFileOptions& options = {});

}  // namespace camshaft::onnx
