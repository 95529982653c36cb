// Replacing the weights of an engine.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "camshaft/camshaft.h"
#include "camshaft/engine.hpp"
#include "camshaft/record.hpp"
#include "camshaft/tensor.hpp"

namespace camshaft {
inline namespace v1 {

/// A node of the model's main graph that reads an initializer.
struct WeightReader {
  std::string name;   ///< "Conv_3" of one without, the fourth node
  std::string op;     ///< "Conv"
  int64_t input = 0;  ///< as which of its inputs
};

/// An initializer of the model that an engine was built of.
struct EngineWeight {
  std::string name;
  DType dtype{};
  std::vector<int64_t> dims;
  /// What was decided by its numbers, so that only the same ones can be set; empty: it can be replaced.
  std::string fixed_by;
  std::vector<std::string> layers;  ///< those that read what is made of it
  std::vector<WeightReader> nodes;
  bool is_set = false;
};

/// The weights of an ONNX model in memory, which must outlive them, by the names that Refitter::set() knows them by, in
/// their order. `folder` is where external data lies; of `names`, where they are given, alone. Throws Error.
inline NamedTensors model_weights(std::span<const std::byte> model, const std::string& folder = {},
                                  const std::optional<std::vector<std::string>>& names = {}) {
  std::vector<const char*> wanted;
  if (names)
    for (const std::string& name : *names) wanted.push_back(name.c_str());
  wanted.push_back(nullptr);  // so that there is a list, even of none
  camshaft_tensors* weights = nullptr;
  detail::check(camshaft_model_weights(model.data(), model.size(), folder.empty() ? nullptr : folder.c_str(),
                                       names ? wanted.data() : nullptr, wanted.size() - 1, &weights));
  return detail::named_tensors({weights, camshaft_tensors_free});
}

/// Collects new weights for an engine that was built with the option refit, and gives them to it at once. Not
/// thread-safe; several refitters of one engine take turns.
///
///   Refitter refitter(engine);
///   refitter.set_file("finetuned.safetensors");
///   refitter.refit();
class Refitter {
 public:
  /// Throws Error(invalid_argument) for an engine that was built without that option.
  explicit Refitter(const Engine& engine) {
    camshaft_refitter* made = nullptr;
    detail::check(camshaft_refitter_create(engine.handle(), &made));
    handle_.reset(made);
  }

  /// All initializers that the model's nodes read, in order of their names.
  std::vector<EngineWeight> weights() const {
    return detail::record_of([&](camshaft_record** r) { return camshaft_refitter_weights(handle(), r); })
        .list([](const Record& r) {
          EngineWeight weight;
          weight.name = r["name"].text();
          weight.dtype = parse_dtype(r["dtype"].text());
          weight.dims = r["dims"].integers();
          weight.fixed_by = r["fixed_by"].text();
          weight.layers = r["layers"].texts();
          weight.nodes = r["nodes"].list([](const Record& n) {
            return WeightReader{n["name"].text(), n["op"].text(), n["input"].integer()};
          });
          weight.is_set = r["is_set"].boolean();
          return weight;
        });
  }
  /// What must be set besides what is, as constants are made of both.
  std::vector<std::string> missing() const {
    return detail::record_of([&](camshaft_record** r) { return camshaft_refitter_missing(handle(), r); }).texts();
  }
  /// Puts a tensor of the host, which is kept until refit(), in the place of an initializer. Throws
  /// Error(invalid_argument) for an unknown name, another type or shape, and for an initializer that is fixed.
  void set(const std::string& name, Tensor tensor) {
    detail::check(camshaft_refitter_set(handle(), name.c_str(), tensor.handle()));
    kept_.push_back(std::move(tensor));
  }
  /// The same for every initializer of a model (.onnx) that the engine has, or for all tensors of a
  /// .safetensors or .npz file.
  void set_file(const std::string& path) { detail::check(camshaft_refitter_set_file(handle(), path.c_str())); }
  /// The same for an adapter that the engine was built with (the option lora), from another file, which may update what
  /// the engine's adapters did when it was built, in ranks up to theirs.
  void set_lora(const std::string& adapter, const std::string& path) {
    detail::check(camshaft_refitter_set_lora(handle(), adapter.c_str(), path.c_str()));
  }
  /// Gives the engine what is set, and forgets it. Contexts take the new weights with their next run. The engine is as
  /// it was when this throws.
  void refit(int threads = 0) {
    detail::check(camshaft_refitter_refit(handle(), threads));
    kept_.clear();
  }

  camshaft_refitter* handle() const { return handle_.get(); }

 private:
  struct Free {
    void operator()(camshaft_refitter* refitter) const { camshaft_refitter_free(refitter); }
  };
  std::unique_ptr<camshaft_refitter, Free> handle_;
  std::vector<Tensor> kept_;
};

}  // namespace v1
}  // namespace camshaft
