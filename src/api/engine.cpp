#include "api/engine.h"

#include <unistd.h>

#include <array>

#include "api/describe.h"
#include "api/layer_cost.h"
#include "api/layer_graph.h"
#include "api/network.h"
#include "api/options.h"
#include "api/record.h"
#include "api/status.h"
#include "api/tensor.h"
#include "builder/sample_inputs.h"
#include "engine/container.h"
#include "ir/ops/collective.h"
#include "ir/text.h"
#include "runtime/engine_impl.h"

namespace camshaft::api {

namespace {

/// `build` gets a builder. Its report is kept also where it throws, but for what says nothing of the model.
template <class Build>
camshaft_status built(const camshaft_options* options, camshaft_engine** engine, camshaft_record** report,
                      const Build& build) {
  return guarded([&] {
    given(engine, "engine");
    Builder builder(settings_of(options, CAMSHAFT_BUILD).settings.build);
    std::unique_ptr<camshaft_engine> made;
    run_with_report(
        report, [&] { made = std::make_unique<camshaft_engine>(build(builder)); },
        [&] { return describe(builder.report()); });
    *engine = made.release();
  });
}

std::shared_ptr<const MappedFile> copied(const void* data, size_t bytes, const std::string& name) {
  const auto* begin = static_cast<const std::byte*>(given(data, "data"));
  return MappedFile::from_bytes({begin, bytes}, name);
}

LoadOptions load_options_of(const camshaft_options* options) {
  return settings_of(options, CAMSHAFT_LOAD).settings.load;
}

std::shared_ptr<const Engine::Impl> impl_of(const camshaft_engine* engine) {
  return given(engine, "engine")->engine.impl();
}

const std::map<std::string, Dims>& dims_of(const camshaft_shapes* shapes) {
  static const std::map<std::string, Dims> none;
  return shapes == nullptr ? none : shapes->dims;
}

}  // namespace

}  // namespace camshaft::api

using namespace camshaft;
using namespace camshaft::api;

camshaft_status camshaft_build_file(const char* path, const camshaft_options* options, camshaft_engine** engine,
                                    camshaft_record** report) {
  return built(options, engine, report,
               [&](Builder& builder) { return camshaft_engine{builder.build(given(path, "path"))}; });
}

camshaft_status camshaft_build_memory(const void* model, size_t bytes, const char* name, const char* folder,
                                      const camshaft_options* options, camshaft_engine** engine,
                                      camshaft_record** report) {
  return built(options, engine, report, [&](Builder& builder) {
    return camshaft_engine{builder.build(copied(model, bytes, given(name, "name")), folder == nullptr ? "" : folder)};
  });
}

camshaft_status camshaft_build_network(camshaft_network* network, const camshaft_options* options,
                                       camshaft_engine** engine, camshaft_record** report) {
  return built(options, engine, report, [&](Builder& builder) {
    return camshaft_engine{builder.build(given(network, "network")->network->model())};
  });
}

camshaft_status camshaft_engine_load_file(const char* path, const camshaft_options* options, camshaft_engine** engine) {
  return guarded([&] {
    give(engine, "engine",
         [&] { return new camshaft_engine{Engine::load(given(path, "path"), load_options_of(options))}; });
  });
}

camshaft_status camshaft_engine_load_memory(const void* data, size_t bytes, const camshaft_options* options,
                                            camshaft_engine** engine) {
  return guarded([&] {
    give(engine, "engine", [&] {
      return new camshaft_engine{load_engine(copied(data, bytes, "engine in memory"), load_options_of(options))};
    });
  });
}

camshaft_status camshaft_engine_save_file(const camshaft_engine* engine, const char* path) {
  return guarded([&] { given(engine, "engine")->engine.save(given(path, "path")); });
}

camshaft_status camshaft_engine_save_memory(const camshaft_engine* engine, void** data, size_t* bytes) {
  return guarded([&] { give_bytes(engine_bytes(given(engine, "engine")->engine), data, bytes); });
}

camshaft_status camshaft_engine_save_memory_with(const camshaft_engine* engine, int32_t weights, void** data,
                                                 size_t* bytes) {
  return guarded([&] { give_bytes(engine_bytes_with(given(engine, "engine")->engine, weights != 0), data, bytes); });
}

void camshaft_engine_free(camshaft_engine* engine) {
  delete engine;
}

camshaft_status camshaft_is_engine_file(const char* path, int32_t* is_engine) {
  return guarded([&] {
    // Read, as a file that is cut short meanwhile has no byte at its map's beginning.
    const auto file = MappedFile::open_with_descriptor(given(path, "path"));
    std::array<std::byte, 64> begin{};
    const ssize_t count = pread(file->descriptor(), begin.data(), begin.size(), 0);
    *given(is_engine, "is_engine") =
        count > 0 && begins_like_container({begin.data(), static_cast<size_t>(count)}) ? 1 : 0;
  });
}

camshaft_device camshaft_engine_device(const camshaft_engine* engine) {
  return device_of(engine->engine.device());
}

camshaft_status camshaft_engine_info(const camshaft_engine* engine, camshaft_record** info) {
  return guarded([&] {
    const std::shared_ptr<const Engine::Impl> held = impl_of(engine);
    const Engine::Impl& impl = *held;
    give(info, "info", [&] {
      return new_record({{"inputs", describe_all(impl.inputs)},
                         {"outputs", describe_all(impl.outputs)},
                         {"profiles", describe_all(impl.profiles)},
                         {"metadata", impl.metadata},
                         {"device", describe(impl.backend->device())},
                         {"refittable", impl.initializers.has_value()},
                         {"ranks", ops::ranks_of(impl.graph)}});
    });
  });
}

camshaft_status camshaft_engine_layers(const camshaft_engine* engine, camshaft_record** layers) {
  return guarded([&] {
    give(layers, "layers", [&] { return new_record(describe_all(given(engine, "engine")->engine.layers())); });
  });
}

camshaft_status camshaft_engine_tensor_names(const camshaft_engine* engine, camshaft_record** names) {
  return guarded(
      [&] { give(names, "names", [&] { return new_record(given(engine, "engine")->engine.tensor_names()); }); });
}

camshaft_status camshaft_engine_memory(const camshaft_engine* engine, camshaft_record** memory) {
  return guarded(
      [&] { give(memory, "memory", [&] { return new_record(describe(given(engine, "engine")->engine.memory())); }); });
}

camshaft_status camshaft_engine_set_weight_budget(camshaft_engine* engine, const char* budget) {
  return guarded([&] { given(engine, "engine")->engine.set_weight_budget(budget == nullptr ? "" : budget); });
}

camshaft_status camshaft_engine_weight_streaming(const camshaft_engine* engine, camshaft_record** streaming) {
  return guarded([&] {
    give(streaming, "streaming",
         [&] { return new_record(describe(given(engine, "engine")->engine.weight_streaming())); });
  });
}

camshaft_status camshaft_engine_graph(const camshaft_engine* engine, camshaft_record** text) {
  return guarded([&] {
    PrintOptions options;
    options.sources = true;
    give(text, "text", [&] { return new_record(print(impl_of(engine)->graph, options)); });
  });
}

camshaft_status camshaft_engine_layers_onnx(const camshaft_engine* engine, void** data, size_t* bytes) {
  return guarded([&] {
    const std::string file = layer_graph(given(engine, "engine")->engine);
    give_bytes(std::as_bytes(std::span(file)), data, bytes);
  });
}

camshaft_status camshaft_engine_layer_costs(const camshaft_engine* engine, const camshaft_shapes* shapes,
                                            camshaft_record** costs) {
  return guarded([&] {
    impl_of(engine);
    const Engine& of = engine->engine;
    const std::vector<std::optional<ops::Cost>> each = layer_costs(of, dims_of(shapes));
    const std::vector<LayerOperands> operands = layer_operands(of, dims_of(shapes));
    const std::vector<LayerBound> bounds = layer_bounds(of, each);
    nlohmann::json list = nlohmann::json::array();
    for (size_t i = 0; i < each.size(); ++i) {
      list.emplace_back();
      if (!each[i]) continue;
      list.back() = {{"flops", each[i]->flops},
                     {"exponentials", each[i]->exponentials},
                     {"constant_bytes", each[i]->constant_bytes},
                     {"activation_bytes", each[i]->activation_bytes},
                     {"inputs", operands[i].inputs},
                     {"outputs", operands[i].outputs}};
      if (bounds[i].seconds > 0) list.back().update({{"limit", bounds[i].what}, {"limit_seconds", bounds[i].seconds}});
    }
    give(costs, "costs", [&] { return new_record(std::move(list)); });
  });
}

camshaft_status camshaft_engine_sample_inputs(const camshaft_engine* engine, const camshaft_shapes* shapes,
                                              uint64_t seed, camshaft_tensors** inputs) {
  return guarded([&] {
    const std::shared_ptr<const Engine::Impl> held = impl_of(engine);
    const Engine::Impl& impl = *held;
    given(inputs, "inputs");
    const std::vector<Tensor> samples =
        sample_inputs(impl.graph, choose_input_shapes(impl.graph, dims_of(shapes), impl.optimum), seed);
    auto named = std::make_unique<camshaft_tensors>();
    for (size_t i = 0; i < samples.size(); ++i) named->items.emplace_back(impl.inputs[i].name, handle_of(samples[i]));
    *inputs = named.release();
  });
}
