#include "runtime/refitter.h"

#include <filesystem>
#include <memory>
#include <set>
#include <span>
#include <string>

#include "api/engine.h"
#include "api/record.h"
#include "api/status.h"
#include "api/tensor.h"
#include "onnx/proto_reader.h"
#include "onnx/weights_file.h"

struct camshaft_refitter {
  camshaft::Refitter refitter;
};

using namespace camshaft;
using namespace camshaft::api;

camshaft_status camshaft_model_weights(const void* model, size_t bytes, const char* folder, const char* const* names,
                                       size_t name_count, camshaft_tensors** weights) {
  return guarded([&] {
    std::set<std::string> wanted;
    for (size_t i = 0; names != nullptr && i < name_count; ++i) wanted.insert(given(names[i], "names"));
    const std::span<const std::byte> data(static_cast<const std::byte*>(given(model, "model")), bytes);
    give(weights, "weights", [&] {
      auto list = std::make_unique<camshaft_tensors>();
      const std::filesystem::path place = folder == nullptr ? "" : folder;
      for (auto& [name, weight] :
           onnx::weights_by_name(onnx::read_model(data, "the model", nullptr, place),
                                 [&](const std::string& key) { return names == nullptr || wanted.contains(key); }))
        list->items.emplace_back(name, handle_of(std::move(weight.tensor)));
      return list.release();
    });
  });
}

camshaft_status camshaft_refitter_create(const camshaft_engine* engine, camshaft_refitter** refitter) {
  return guarded([&] {
    give(refitter, "refitter", [&] { return new camshaft_refitter{Refitter(given(engine, "engine")->engine)}; });
  });
}

void camshaft_refitter_free(camshaft_refitter* refitter) {
  delete refitter;
}

camshaft_status camshaft_refitter_weights(const camshaft_refitter* refitter, camshaft_record** weights) {
  return guarded([&] {
    nlohmann::json list = nlohmann::json::array();
    for (const EngineWeight& weight : given(refitter, "refitter")->refitter.weights()) {
      nlohmann::json nodes = nlohmann::json::array();
      for (const InitializerUse& use : weight.initializer.uses)
        nodes.push_back({{"name", use.node}, {"op", use.op}, {"input", use.input}});
      list.push_back({{"name", weight.initializer.name},
                      {"dtype", to_string(weight.initializer.dtype)},
                      {"dims", weight.initializer.dims},
                      {"fixed_by", weight.initializer.fixed_by},
                      {"layers", weight.layers},
                      {"nodes", std::move(nodes)},
                      {"is_set", weight.is_set}});
    }
    give(weights, "weights", [&] { return new_record(std::move(list)); });
  });
}

camshaft_status camshaft_refitter_missing(const camshaft_refitter* refitter, camshaft_record** names) {
  return guarded(
      [&] { give(names, "names", [&] { return new_record(given(refitter, "refitter")->refitter.missing()); }); });
}

camshaft_status camshaft_refitter_set(camshaft_refitter* refitter, const char* name, const camshaft_tensor* tensor) {
  return guarded([&] {
    given(refitter, "refitter")->refitter.set(given(name, "name"), tensor_of(*given(tensor, "tensor"), "the tensor"));
  });
}

camshaft_status camshaft_refitter_set_file(camshaft_refitter* refitter, const char* path) {
  return guarded([&] { given(refitter, "refitter")->refitter.set_file(given(path, "path")); });
}

camshaft_status camshaft_refitter_set_lora(camshaft_refitter* refitter, const char* adapter, const char* path) {
  return guarded(
      [&] { given(refitter, "refitter")->refitter.set_lora(given(adapter, "adapter"), given(path, "path")); });
}

camshaft_status camshaft_refitter_refit(camshaft_refitter* refitter, int32_t threads) {
  return guarded([&] { given(refitter, "refitter")->refitter.refit(threads); });
}
