// A ModelInferRequest as it lies on the wire, without the generated classes: tensors are not copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "server/core/request.h"

namespace camshaft::server {

/// In their order; of several with one name the last counts. A parameter without a value is nullopt.
using WireParameters = std::vector<std::pair<std::string_view, std::optional<Parameter>>>;

/// The last of that name, or null.
const std::optional<Parameter>* find_parameter(const WireParameters& parameters, std::string_view name);

/// All views point into the bytes that were read.
struct InferMessage {
  struct Input {
    std::string_view name, datatype;
    std::vector<int64_t> shape;
    WireParameters parameters;
    /// InferTensorContents, to be read as one message after another.
    std::vector<std::string_view> contents;
  };
  struct Output {
    std::string_view name;
    WireParameters parameters;
  };

  std::string_view model_name, model_version, id;
  WireParameters parameters;
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  std::vector<std::string_view> raw_input_contents;
};

/// How many inputs, outputs, parameters, sizes of shapes and raw contents a message may have together: a byte or two of
/// the wire makes 16 to 200 of memory of each, and a message has up to 2 GiB.
inline constexpr size_t infer_message_items = 65536;

/// Reads into `message`, which is left with what was read where it fails: the id of the request names its error. Throws
/// ServerError(invalid_argument) for what is no such message, for texts that are not UTF-8 and for too many items.
void read_infer_message(std::span<const std::byte> bytes, InferMessage& message);

}  // namespace camshaft::server
