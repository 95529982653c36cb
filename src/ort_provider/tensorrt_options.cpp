#include "ort_provider/tensorrt_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/similar_names.h"

namespace camshaft::ort_provider {

namespace {

enum class Meaning {
  same,     ///< the value as it is
  boolean,  ///< a switch
  other,    ///< taken together with others, below
  nothing,  ///< there is nothing here that it would change
  refused,  ///< cannot be had: only off, or empty
};

struct Alias {
  const char* name;
  Meaning meaning;
  const char* ours = "";
};

constexpr Alias aliases[] = {
    {"device_id", Meaning::other},
    {"has_trt_options", Meaning::nothing},
    {"trt_auxiliary_streams", Meaning::nothing},
    {"trt_bf16_enable", Meaning::boolean, "bf16"},
    {"trt_build_heuristics_enable", Meaning::other},
    {"trt_builder_optimization_level", Meaning::other},
    {"trt_context_memory_sharing_enable", Meaning::nothing},
    {"trt_cuda_graph_enable", Meaning::nothing},
    {"trt_detailed_build_log", Meaning::nothing},
    {"trt_dla_core", Meaning::nothing},
    {"trt_dla_enable", Meaning::refused},
    {"trt_dump_ep_context_model", Meaning::refused},
    {"trt_dump_subgraphs", Meaning::nothing},
    {"trt_engine_cache_enable", Meaning::boolean, "engine-cache"},
    {"trt_engine_cache_path", Meaning::same, "engine-cache-path"},
    {"trt_engine_cache_prefix", Meaning::same, "engine-cache-prefix"},
    {"trt_engine_decryption_enable", Meaning::refused},
    {"trt_engine_decryption_lib_path", Meaning::refused},
    {"trt_engine_hw_compatible", Meaning::nothing},
    {"trt_ep_context_embed_mode", Meaning::nothing},
    {"trt_ep_context_file_path", Meaning::refused},
    {"trt_extra_plugin_lib_paths", Meaning::refused},
    {"trt_force_sequential_engine_build", Meaning::nothing},
    {"trt_force_timing_cache", Meaning::nothing},
    {"trt_fp16_enable", Meaning::boolean, "fp16"},
    {"trt_int8_calibration_table_name", Meaning::other},
    {"trt_int8_enable", Meaning::boolean, "int8"},
    {"trt_int8_use_native_calibration_table", Meaning::nothing},
    {"trt_layer_norm_fp32_fallback", Meaning::nothing},
    {"trt_load_user_initializer", Meaning::nothing},
    {"trt_max_partition_iterations", Meaning::nothing},
    {"trt_max_workspace_size", Meaning::nothing},
    {"trt_min_subgraph_size", Meaning::same, "min-subgraph-size"},
    {"trt_op_types_to_exclude", Meaning::same, "exclude-operators"},
    {"trt_preview_features", Meaning::nothing},
    {"trt_profile_max_shapes", Meaning::same, "max-shapes"},
    {"trt_profile_min_shapes", Meaning::same, "min-shapes"},
    {"trt_profile_opt_shapes", Meaning::same, "opt-shapes"},
    {"trt_sparsity_enable", Meaning::nothing},
    {"trt_tactic_sources", Meaning::nothing},
    {"trt_timing_cache_enable", Meaning::other},
    {"trt_timing_cache_path", Meaning::other},
    {"trt_weight_stripped_engine_enable", Meaning::boolean, "engine-cache-weightless"},
    {"trt_onnx_model_folder_path", Meaning::nothing},
    {stream_option, Meaning::other},
    {"has_user_compute_stream", Meaning::other},
};

const Alias* find_alias(const std::string& name) {
  const auto* it = std::find_if(std::begin(aliases), std::end(aliases), [&](const Alias& a) { return name == a.name; });
  return it == std::end(aliases) ? nullptr : it;
}

bool is_off(const std::string& value) {
  return value.empty() || value == "0" || value == "false" || value == "False";
}

}  // namespace

bool parse_switch(const std::string& name, const std::string& value) {
  if (value == "1" || value == "true" || value == "True") return true;
  if (value == "0" || value == "false" || value == "False") return false;
  throw Error(ErrorCode::invalid_argument, fmt::format("the option '{}' takes true or false, not '{}'", name, value));
}

bool is_tensorrt_option(const std::string& name) {
  return name.starts_with("trt_") || find_alias(name);
}

TranslatedOptions translate_tensorrt_options(const std::map<std::string, std::string>& given) {
  TranslatedOptions out;
  const auto value_of = [&](const char* name) {
    const auto it = given.find(name);
    return it == given.end() ? std::string() : it->second;
  };
  for (const auto& [name, value] : given) {
    const Alias* alias = find_alias(name);
    if (!alias) {
      std::vector<std::string> names;
      for (const Alias& a : aliases) names.emplace_back(a.name);
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("TensorRT's execution provider has no option '{}'{}", name, what_was_meant(name, names)));
    }
    switch (alias->meaning) {
      case Meaning::same:
        out.options[alias->ours] = value;
        break;
      case Meaning::boolean:
        out.options[alias->ours] = parse_switch(name, value) ? "true" : "false";
        break;
      case Meaning::refused:
        if (!is_off(value))
          throw Error(ErrorCode::unsupported, fmt::format("the option '{}' cannot be had of Camshaft's execution "
                                                          "provider: leave it out (docs/onnxruntime.md)",
                                                          name));
        break;
      case Meaning::nothing:
        if (!is_off(value)) out.unused.push_back(fmt::format("the option '{}' has no effect in Camshaft", name));
        break;
      case Meaning::other:
        break;
    }
  }
  out.gpu = value_of("device_id");
  // Where the first alone is given, the stream is meant; as their provider lists its options, "0" and "0" are none.
  const std::string stream = value_of(stream_option), has_stream = value_of("has_user_compute_stream");
  if (!stream.empty() && !(given.contains("has_user_compute_stream") && is_off(has_stream))) out.stream = stream;
  if (stream.empty() && !is_off(has_stream))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the option 'has_user_compute_stream' needs '{}', the stream's address", stream_option));
  const std::string level = value_of("trt_builder_optimization_level");
  // Below 3, which is TensorRT's default, it measures less and less.
  const bool is_quick = !level.empty() && level < "3";
  if (is_quick || !is_off(value_of("trt_build_heuristics_enable"))) out.options["tuning"] = "heuristic";
  const std::filesystem::path folder = value_of("trt_engine_cache_path");
  if (const std::string table = value_of("trt_int8_calibration_table_name"); !table.empty())
    out.options["calibration"] = (folder / table).string();
  if (!is_off(value_of("trt_timing_cache_enable"))) {
    const std::filesystem::path own = value_of("trt_timing_cache_path");
    out.options["timing-cache"] = ((own.empty() ? folder : own) / "camshaft.timing").string();
  }
  return out;
}

}  // namespace camshaft::ort_provider
