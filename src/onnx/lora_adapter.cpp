#include "onnx/lora_adapter.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/similar_names.h"
#include "ir/widened.h"
#include "onnx/lora_config.h"
#include "onnx/quote.h"
#include "onnx/safetensors.h"

namespace camshaft::onnx {

namespace {

struct AdapterPart {
  std::string module;
  bool is_a = false;
};

class LoraReader {
 public:
  LoraReader(const std::string& name, const std::string& path) {
    adapter_.name = name;
    adapter_.file = path;
    if (std::filesystem::is_directory(path)) {
      adapter_.file = (std::filesystem::path(path) / "adapter_model.safetensors").string();
    } else if (!path.ends_with(".safetensors")) {
      throw Error(ErrorCode::unsupported, fmt::format("'{}': an adapter is read from a .safetensors file, or from the "
                                                      "folder that PEFT's save_pretrained() writes",
                                                      path));
    }
  }

  LoraAdapter read() {
    const std::map<std::string, Tensor> tensors = read_safetensors(MappedFile::open(adapter_.file));
    const LoraConfig config = read_lora_config(std::filesystem::path(adapter_.file).parent_path());
    for (const auto& [name, tensor] : tensors) add(name, tensor);
    if (halves_.empty()) fail(ErrorCode::invalid_model, "it has no tensors lora_A and lora_B");
    for (auto& [module, halves] : halves_) finish(module, halves, config);
    return std::move(adapter_);
  }

 private:
  struct Halves {
    Tensor a, b;
  };

  [[noreturn]] void fail(ErrorCode code, const std::string& what) const {
    throw Error(code, fmt::format("the adapter '{}' ('{}'): {}", adapter_.name, adapter_.file, what));
  }

  AdapterPart part_of(const std::string& name) const {
    const auto refuse = [&](std::string_view what) {
      fail(ErrorCode::unsupported, fmt::format("the tensor {} {}", quote(name), what));
    };
    if (name.find("lora_embedding_") != std::string::npos)
      refuse("updates an embedding; only products have low-rank updates here");
    if (name.find("lora_magnitude_vector") != std::string::npos)
      refuse("is DoRA's, which scales whole columns of the weights: merge it into the model");
    const size_t at = std::max(rfind(name, ".lora_A."), rfind(name, ".lora_B."));
    if (at == 0) refuse("is no low-rank update (lora_A, lora_B): whole weights are replaced by a refit");
    constexpr size_t marker = std::string_view(".lora_A.").size();
    const std::string_view kind = std::string_view(name).substr(at + marker);
    const bool is_weight = kind == "weight" || (kind.ends_with(".weight") && kind.find('.') == kind.rfind('.'));
    if (!is_weight) refuse("is no matrix of a low-rank update (…weight)");
    constexpr std::string_view wrapper = "base_model.model.";
    const size_t from = name.starts_with(wrapper) && at > wrapper.size() ? wrapper.size() : 0;
    return {name.substr(from, at - from), name[at + marker - 2] == 'A'};
  }

  // 0 where it is not there.
  static size_t rfind(const std::string& text, std::string_view part) {
    const size_t at = text.rfind(part);
    return at == std::string::npos ? 0 : at;
  }

  void add(const std::string& name, const Tensor& tensor) {
    const AdapterPart part = part_of(name);
    if (!is_floating(tensor.dtype()))
      fail(ErrorCode::unsupported, fmt::format("the tensor {} is {}", quote(name), to_string(tensor.dtype())));
    if (tensor.rank() != 2)
      fail(ErrorCode::unsupported, fmt::format("the tensor {} has {} axes, not 2: only matrix products have low-rank "
                                               "updates here, no convolutions",
                                               quote(name), tensor.rank()));
    Tensor& half = part.is_a ? halves_[part.module].a : halves_[part.module].b;
    if (half.defined())
      fail(ErrorCode::invalid_model,
           fmt::format("the module {} has two tensors lora_{}", quote(part.module), part.is_a ? "A" : "B"));
    half = tensor.dtype() == DType::f32 ? tensor : widened(tensor);
  }

  void finish(const std::string& module, const Halves& halves, const LoraConfig& config) {
    if (!halves.a.defined() || !halves.b.defined())
      fail(ErrorCode::invalid_model,
           fmt::format("the module {} has no tensor lora_{}", quote(module), halves.a.defined() ? "B" : "A"));
    const Dims &a = halves.a.dims(), &b = halves.b.dims();
    if (a[0] != b[1] || a[0] < 1)
      fail(ErrorCode::invalid_model, fmt::format("lora_A {} and lora_B {} of the module {} have no common rank",
                                                 to_string(a), to_string(b), quote(module)));
    Tensor scaled(DType::f32, b);
    const double scale = config.scale(module, a[0]);
    for (int64_t i = 0; i < scaled.size(); ++i)
      scaled.as_mutable<float>()[i] = static_cast<float>(scale * halves.b.as<float>()[i]);
    adapter_.updates.emplace(module, LowRankUpdate{halves.a, std::move(scaled)});
  }

  LoraAdapter adapter_;
  std::map<std::string, Halves> halves_;
};

// What turns the modules' names into known ones: a path that is put in front, or taken away.
struct InFront {
  std::string path;  // with a dot at the end
  bool is_added = false;

  std::optional<std::string> apply(const std::string& module) const {
    if (is_added) return path + module;
    if (!module.starts_with(path)) return std::nullopt;
    return module.substr(path.size());
  }
};

std::optional<std::string> first_unknown(const std::vector<std::string>& modules, const std::set<std::string>& known,
                                         const InFront& front) {
  for (const std::string& module : modules) {
    const auto name = front.apply(module);
    if (!name || !known.contains(*name)) return module;
  }
  return std::nullopt;
}

std::vector<InFront> fronts_of(const std::string& module, const std::set<std::string>& known) {
  std::vector<InFront> fronts;
  for (const std::string& name : known) {
    if (name.ends_with("." + module)) fronts.push_back({name.substr(0, name.size() - module.size()), true});
    if (module.ends_with("." + name)) fronts.push_back({module.substr(0, module.size() - name.size()), false});
  }
  return fronts;
}

}  // namespace

LoraAdapter read_lora_adapter(const std::string& name, const std::string& path) {
  return LoraReader(name, path).read();
}

std::map<std::string, std::string> match_modules(const std::vector<std::string>& modules,
                                                 const std::set<std::string>& known, const std::string& who) {
  const auto mapped = [&](const InFront& front) {
    std::map<std::string, std::string> names;
    for (const std::string& module : modules) names.emplace(module, *front.apply(module));
    return names;
  };
  const InFront same;
  const auto unknown = first_unknown(modules, known, same);
  if (!unknown) return mapped(same);
  std::vector<InFront> fitting;
  for (const InFront& front : fronts_of(modules.front(), known))
    if (!first_unknown(modules, known, front)) fitting.push_back(front);
  if (fitting.size() == 1) return mapped(fitting[0]);
  if (fitting.empty()) {
    const std::vector<std::string> names(known.begin(), known.end());
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} updates {}, which is no product with constant weights here{}", who, quote(*unknown),
                            what_was_meant(*unknown, names)));
  }
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{} updates {}, which may be {} or {}", who, quote(modules.front()),
                          quote(*fitting[0].apply(modules.front())), quote(*fitting[1].apply(modules.front()))));
}

}  // namespace camshaft::onnx
