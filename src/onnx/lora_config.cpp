#include "onnx/lora_config.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/mapped_file.h"
#include "onnx/quote.h"

namespace camshaft::onnx {

namespace {

using OrderedJson = nlohmann::ordered_json;

// PEFT writes some kilobytes.
constexpr size_t most_config_bytes = 16 << 20;

class LoraConfigReader {
 public:
  explicit LoraConfigReader(const std::string& path) : path_(path) {
    const auto file = MappedFile::open(path);
    if (file->size() > most_config_bytes) fail(ErrorCode::invalid_model, "it is too large");
    config_ = OrderedJson::parse(file->data(), file->data() + file->size(), nullptr, false);
    if (!config_.is_object()) fail(ErrorCode::invalid_model, "it is no JSON object");
  }

  LoraConfig read() {
    if (const OrderedJson type = config_.value("peft_type", OrderedJson("LORA")); type != "LORA")
      fail(ErrorCode::unsupported, fmt::format("peft_type is {}; LORA is read", quote(type.dump())));
    // Each computes something else than x·A·B.
    for (const char* other : {"use_dora", "alora_invocation_tokens", "layer_replication", "use_qalora", "arrow_config"})
      if (const OrderedJson value = config_.value(other, OrderedJson());
          !value.is_null() && value != OrderedJson(false))
        fail(ErrorCode::unsupported, fmt::format("{} is set: only plain low-rank updates are read", other));
    LoraConfig config;
    config.alpha = number("lora_alpha", config_.value("lora_alpha", OrderedJson()));
    config.by_root = config_.value("use_rslora", OrderedJson(false)) == OrderedJson(true);
    const OrderedJson pattern = config_.value("alpha_pattern", OrderedJson::object());
    if (!pattern.is_object() && !pattern.is_null()) fail(ErrorCode::invalid_model, "alpha_pattern is no object");
    for (const auto& [key, alpha] : pattern.items()) {
      if (key.find_first_of("*+?()[]{}|$\\") != std::string::npos)
        fail(ErrorCode::unsupported, fmt::format("alpha_pattern has the regular expression {}; give the ends of "
                                                 "modules' paths",
                                                 quote(key)));
      config.alpha_pattern.emplace_back(key, number("alpha_pattern", alpha));
    }
    return config;
  }

 private:
  [[noreturn]] void fail(ErrorCode code, const std::string& what) const {
    throw Error(code, fmt::format("'{}': {}", path_, what));
  }

  double number(const char* key, const OrderedJson& value) const {
    if (!value.is_number() || !std::isfinite(value.get<double>()))
      fail(ErrorCode::invalid_model, fmt::format("{} is no number", key));
    return value.get<double>();
  }

  std::string path_;
  OrderedJson config_;
};

// As PEFT matches: the module itself or the end of its path; "^" stands for the beginning.
bool is_end_of(const std::string& module, const std::string& pattern) {
  if (pattern.starts_with('^')) return module == pattern.substr(1);
  return module == pattern || module.ends_with("." + pattern);
}

}  // namespace

double LoraConfig::scale(const std::string& module, int64_t rank) const {
  if (!alpha) return 1;
  double chosen = *alpha;
  for (const auto& [pattern, other] : alpha_pattern)
    if (is_end_of(module, pattern)) {
      chosen = other;
      break;
    }
  const auto r = static_cast<double>(rank);
  return chosen / (by_root ? std::sqrt(r) : r);
}

LoraConfig read_lora_config(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "adapter_config.json";
  if (!std::filesystem::exists(file)) return {};
  return LoraConfigReader(file.string()).read();
}

}  // namespace camshaft::onnx
