// The options of ONNX Runtime's provider for TensorRT, as those of this one.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace camshaft::ort_provider {

/// The address of the stream to run in.
constexpr const char* stream_option = "user_compute_stream";

struct TranslatedOptions {
  std::map<std::string, std::string> options;  ///< by our names
  std::vector<std::string> unused;             ///< messages about those that have no effect
  std::string gpu;                             ///< which one is meant, where there is one; empty: nothing is said
  std::optional<std::string> stream;           ///< the program's, by its address
};

/// Whether a name is one of theirs: "trt_…", "device_id", …
bool is_tensorrt_option(const std::string& name);
/// `given`: those for which is_tensorrt_option() holds. Throws Error(invalid_argument) for an unknown one and
/// Error(unsupported) for what would change what is computed or how, and cannot be had.
TranslatedOptions translate_tensorrt_options(const std::map<std::string, std::string>& given);

/// "1", "true", "True": true; "0", "false", "False": false. Throws Error(invalid_argument).
bool parse_switch(const std::string& name, const std::string& value);

}  // namespace camshaft::ort_provider
