// What a session is asked of the provider.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "api/option_table.h"
#include "base/cache_folder.h"
#include "base/device_id.h"

namespace camshaft::ort_provider {

constexpr const char* provider_name = "CamshaftExecutionProvider";
/// The one whose tensors are on a GPU.
constexpr const char* gpu_provider_name = "CamshaftCUDAExecutionProvider";

struct ProviderOptions {
  DeviceId memory;         ///< that tensors are in, of nodes' inputs and outputs
  api::Settings settings;  ///< of builds and contexts
  /// Where engines are kept from session to session; empty: nowhere.
  std::string cache_folder;
  std::string cache_prefix = "camshaft";
  uint64_t cache_bytes = default_cache_bytes;  ///< that the folder's engines may take; 0: any
  bool cache_is_weightless = false;  ///< engines are kept without weights, by the architecture of their models
  size_t least_nodes = 1;            ///< of a group that becomes an engine
  std::set<std::string> excluded;    ///< operators that are left to other providers
  std::vector<std::string> unused;   ///< messages about options that have no effect
  /// The program's stream (a CUstream, of the engines' GPU) that runs go into; null is CUDA's default one.
  std::optional<void*> stream;
  // Of ONNX Runtime's session:
  bool makes_context_nodes = false;
  bool embeds_context = false;
  std::string context_path;  ///< of the model with context nodes; empty: beside the model
};

/// `entries`: all of the session's configuration; `provider`: the name of the provider, and `memory`: where its tensors
/// are, which is also what engines run on unless an option says so. Those of the provider are camshaft's build options
/// by their names (with - or _), what is above, and TensorRT's provider's options (tensorrt_options.h). An empty value
/// is the default. Throws Error(invalid_argument) for another name, with what was probably meant, and for a value that
/// does not fit; Error(unsupported) for what the provider cannot do, or a device that is not there.
ProviderOptions parse_options(const std::map<std::string, std::string>& entries,
                              const std::string& provider = provider_name, DeviceId memory = DeviceId::host);

/// The stream that options of ONNX Runtime's streams name: "user_compute_stream", its address as a number. Throws
/// Error(invalid_argument) for another option or value.
std::optional<void*> parse_stream_options(const std::map<std::string, std::string>& options);

/// All that decides what an engine is made of a model, as text: options, and hashes of the files that they name.
std::string build_key(const ProviderOptions& options);

}  // namespace camshaft::ort_provider
