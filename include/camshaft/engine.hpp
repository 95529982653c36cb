// A compiled model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "camshaft/camshaft.h"
#include "camshaft/context.hpp"
#include "camshaft/options.hpp"
#include "camshaft/report.hpp"
#include "camshaft/tensor.hpp"

namespace camshaft {
inline namespace v1 {

/// A compiled model; cheap to copy, safe to use from several threads. Only a Refitter and set_weight_budget() change
/// anything of it.
class Engine {
 public:
  /// Maps an engine file. Throws Error(io) or Error(corrupt_engine). An engine built on another machine loads too: its
  /// kernels are chosen again for this one.
  static Engine load(const std::string& path, const LoadOptions& options) {
    camshaft_engine* loaded = nullptr;
    detail::check(camshaft_engine_load_file(path.c_str(), options.handle(), &loaded));
    return Engine(loaded);
  }
  /// The same of the bytes of such a file, which are copied.
  static Engine load(std::span<const std::byte> bytes, const LoadOptions& options) {
    camshaft_engine* loaded = nullptr;
    detail::check(camshaft_engine_load_memory(bytes.data(), bytes.size(), options.handle(), &loaded));
    return Engine(loaded);
  }
  /// With the option "device" alone: what it is to run on, "cpu", "cuda" or "cuda:1", of the kind that it was built
  /// for; empty: of an engine for GPUs the one that is current in the calling thread, or the first.
  static Engine load(const std::string& path, const std::string& device = "") {
    return load(path, LoadOptions().set("device", device));
  }
  static Engine load(std::span<const std::byte> bytes, const std::string& device = "") {
    return load(bytes, LoadOptions().set("device", device));
  }
  /// Whether a file begins like an engine: to tell it from a model, not to trust it. Throws Error(io).
  static bool is_engine_file(const std::string& path) {
    int32_t is_engine = 0;
    detail::check(camshaft_is_engine_file(path.c_str(), &is_engine));
    return is_engine != 0;
  }
  /// Takes over what a call of the C interface gave.
  explicit Engine(camshaft_engine* taken) : handle_(taken, camshaft_engine_free) {
    const Record info = record([&](camshaft_record** r) { return camshaft_engine_info(handle(), r); });
    Facts facts;
    facts.inputs = info["inputs"].list(detail::tensor_info);
    facts.outputs = info["outputs"].list(detail::tensor_info);
    facts.profiles = info["profiles"].list(detail::profile);
    for (size_t i = 0; i < info["metadata"].size(); ++i)
      facts.metadata[info["metadata"].key(i)] = info["metadata"][i].text();
    facts.device = info["device"];
    facts.is_refittable = info["refittable"].boolean();
    facts.ranks = info["ranks"].integer();
    facts_ = std::make_shared<const Facts>(std::move(facts));
  }

  /// Writes the engine file, through a temporary name: `path` is either complete or untouched. Throws Error(io).
  void save(const std::string& path) const { detail::check(camshaft_engine_save_file(handle(), path.c_str())); }
  /// What the file would hold.
  std::vector<std::byte> save() const {
    void* data = nullptr;
    size_t size = 0;
    detail::check(camshaft_engine_save_memory(handle(), &data, &size));
    return taken(data, size);
  }
  /// The same with the weights that a refit can replace or without, however the engine was built. Throws
  /// Error(invalid_argument) where it has none, or where no refit could bring them back.
  std::vector<std::byte> save_with(bool weights) const {
    void* data = nullptr;
    size_t size = 0;
    detail::check(camshaft_engine_save_memory_with(handle(), weights, &data, &size));
    return taken(data, size);
  }

  const std::vector<TensorInfo>& inputs() const { return facts_->inputs; }
  const std::vector<TensorInfo>& outputs() const { return facts_->outputs; }
  const std::vector<Profile>& profiles() const { return facts_->profiles; }
  /// Facts about the build: model name and hash, versions, options, device.
  const std::map<std::string, std::string>& metadata() const { return facts_->metadata; }
  /// How many engines compute the model together, of which it is one (Context::set_communicator); 0: it runs alone.
  int64_t ranks() const { return facts_->ranks; }
  /// What it runs on: memory of a GPU that is bound must be this one's.
  Device device() const {
    const camshaft_device device = camshaft_engine_device(handle());
    return {device.type, device.ordinal};
  }
  /// What that device is: {kind, name, isa, cores, memory_bytes, features, limits}.
  const Record& device_info() const { return facts_->device; }

  /// The steps of a run.
  std::vector<LayerInfo> layers() const {
    return record([&](camshaft_record** r) { return camshaft_engine_layers(handle(), r); }).list(detail::layer_info);
  }
  /// Names of all tensors of the plan, for Context::set_tap.
  std::vector<std::string> tensor_names() const {
    return record([&](camshaft_record** r) { return camshaft_engine_tensor_names(handle(), r); }).texts();
  }
  MemoryInfo memory() const {
    const Record memory = record([&](camshaft_record** r) { return camshaft_engine_memory(handle(), r); });
    return {memory["arena_bytes"].integer(), memory["arena_lower_bound"].integer(), memory["weight_bytes"].integer(),
            memory["kept_bytes"].integer()};
  }
  /// How many bytes of weights may be in memory at once, from the next run of each context on: "800MiB", "40%", "auto",
  /// or "" for all. What does not fit comes in from the engine's file ahead of the layers that read it; results are the
  /// same. Throws Error(invalid_argument) for less than weight_streaming().least_budget.
  void set_weight_budget(const std::string& budget) const {
    detail::check(camshaft_engine_set_weight_budget(handle_.get(), budget.c_str()));
  }
  WeightStreaming weight_streaming() const {
    return detail::weight_streaming(
        record([&](camshaft_record** r) { return camshaft_engine_weight_streaming(handle(), r); }));
  }
  /// The layers as an ONNX file to look at, in Netron for one: see camshaft_engine_layers_onnx.
  std::vector<std::byte> layers_onnx() const {
    void* data = nullptr;
    size_t size = 0;
    detail::check(camshaft_engine_layers_onnx(handle(), &data, &size));
    const std::unique_ptr<void, void (*)(void*)> held(data, camshaft_free);
    const auto* begin = static_cast<const std::byte*>(data);
    return {begin, begin + size};
  }
  /// The optimised graph in its text form.
  std::string graph() const {
    return record([&](camshaft_record** r) { return camshaft_engine_graph(handle(), r); }).text();
  }
  /// Of each layer, for inputs of these shapes; fixed ones need not be named.
  std::vector<LayerCost> layer_costs(const NamedShapes& shapes) const {
    const auto named = detail::shapes_of(shapes);
    return record([&](camshaft_record** r) { return camshaft_engine_layer_costs(handle(), named.get(), r); })
        .list(detail::layer_cost);
  }
  /// What lies where in the arena for inputs of these shapes: [{name, workspace, device, offset, bytes, first_step,
  /// last_step}], steps as layers() lists them. `threads`: of the context; 0 for one for each core.
  Record arena(const NamedShapes& shapes, int threads = 0) const {
    const auto named = detail::shapes_of(shapes);
    return record([&](camshaft_record** r) { return camshaft_engine_arena(handle(), named.get(), threads, r); });
  }
  /// How far the tensors that the engine shares with the model it was built of are from the reference evaluation, each
  /// given the engine's tensors before it: see camshaft_engine_tensor_errors. Throws Error.
  Record tensor_errors(const std::string& model_path, const NamedTensors& inputs, double tolerance, int threads = 0,
                       const Cancellation& cancellation = {}) const {
    const auto named = detail::tensors_of(inputs);
    return record([&](camshaft_record** r) {
      return camshaft_engine_tensor_errors(handle(), model_path.c_str(), named.get(), tolerance, threads,
                                           cancellation.handle(), r);
    });
  }
  /// An input for each of the engine's, the same for the same seed on every machine: floats are standard normal;
  /// integers that index a tensor are in its range. `shapes` says sizes; others are the first profile's optimum, or
  /// guessed. Throws Error(invalid_argument) for an unknown name or a shape that does not fit.
  NamedTensors sample_inputs(const NamedShapes& shapes = {}, uint64_t seed = 0) const {
    camshaft_tensors* inputs = nullptr;
    detail::check(camshaft_engine_sample_inputs(handle(), detail::shapes_of(shapes).get(), seed, &inputs));
    return detail::named_tensors({inputs, camshaft_tensors_free});
  }

  /// Whether a Refitter can replace its weights: it was built with the option refit.
  bool is_refittable() const { return facts_->is_refittable; }

  /// Throws Error(invalid_argument) for options out of range, and for an engine without weights.
  Context create_context(const ContextOptions& options = {}) const {
    camshaft_context* context = nullptr;
    detail::check(camshaft_context_create(handle(), options.handle(), &context));
    std::map<std::string, DType> dtypes;
    for (const TensorInfo& info : inputs()) dtypes[info.name] = info.dtype;
    return {context, std::move(dtypes)};
  }

  const camshaft_engine* handle() const { return handle_.get(); }

 private:
  // Bytes that the C interface gave.
  static std::vector<std::byte> taken(void* data, size_t size) {
    const std::unique_ptr<void, void (*)(void*)> held(data, camshaft_free);
    const auto* begin = static_cast<const std::byte*>(data);
    return {begin, begin + size};
  }
  struct Facts {
    std::vector<TensorInfo> inputs, outputs;
    std::vector<Profile> profiles;
    std::map<std::string, std::string> metadata;
    Record device;
    bool is_refittable = false;
    int64_t ranks = 0;
  };
  template <class Call>
  static Record record(const Call& call) {
    return detail::record_of(call);
  }

  std::shared_ptr<camshaft_engine> handle_;
  std::shared_ptr<const Facts> facts_;
};

/// The nodes of an ONNX file's graph as they stand there: {inputs, outputs, initializers, nodes: [{name, op, domain,
/// inputs, outputs}]}; names are those of LayerInfo::sources. Throws Error.
inline Record model_nodes(const std::string& model_path) {
  return detail::record_of([&](camshaft_record** r) { return camshaft_model_nodes(model_path.c_str(), r); });
}

}  // namespace v1
}  // namespace camshaft
