// The JSON part of a request for an inference.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/core/request.h"

namespace camshaft::server {

struct SharedRange {
  std::string region;
  uint64_t offset = 0, byte_size = 0;
};

struct InferDocument {
  struct Input {
    std::string name;
    std::optional<DType> dtype;
    std::optional<std::vector<int64_t>> shape;
    /// Of "data": as tensors of requests have it.
    std::optional<std::vector<std::byte>> data;
    std::optional<uint64_t> binary_size;
    std::optional<SharedRange> shared;
  };
  struct Output {
    std::string name;
    bool binary = false;
    int64_t classes = 0;
    std::optional<SharedRange> shared;
  };
  std::string id;
  Parameters parameters;  ///< of the request, all of them
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  bool has_inputs = false;
};

/// Reads it in one pass (two where the data of an input stand before its type), with elements going straight to where
/// the tensors are. `limit`: bytes of all of "data". Throws ServerError(invalid_argument) for what is no JSON, nests
/// deeper than 100, lacks what it must have, and for numbers that the type does not hold.
InferDocument parse_infer_document(std::string_view json, uint64_t limit);

}  // namespace camshaft::server
