// Reads .onnx files into the structs of proto.h.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "onnx/proto.h"

namespace camshaft::onnx {

/// Graphs within graphs and types within types deeper than this are refused: reading recurses. Real models reach 3.
constexpr int kMaxNesting = 64;

/// Maps `file` and decodes it; weights are not touched. Any size: lengths are 64 bits. Throws Error(io) when the file
/// cannot be read, Error(invalid_model) when it is no ONNX model, is truncated or damaged.
ModelProto read_model(const std::filesystem::path& file);

/// The same for a model in memory. `name` is used in messages. `owner` keeps `bytes` alive and becomes
/// ModelProto::storage; null: the caller does. `folder` is where external data lies; empty: the model may have none.
ModelProto read_model(std::span<const std::byte> bytes, const std::string& name,
                      std::shared_ptr<const void> owner = nullptr, const std::filesystem::path& folder = {});

}  // namespace camshaft::onnx
