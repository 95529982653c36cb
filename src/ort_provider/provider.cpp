#include "ort_provider/provider.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "onnx/convertible_nodes.h"
#include "ort_provider/context_node.h"
#include "ort_provider/engine_maker.h"
#include "ort_provider/gpu_factory.h"
#include "ort_provider/gpu_memory.h"
#include "ort_provider/values.h"

namespace camshaft::ort_provider {

namespace {

using ort::slot;

std::vector<std::string> sorted(std::vector<std::string> names) {
  std::erase(names, "");
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> output_names_of(const onnx::ModelProto& model) {
  std::vector<std::string> names;
  for (const onnx::ValueInfoProto& output : model.graph.outputs) names.push_back(output.name);
  return sorted(std::move(names));
}

/// Values that are tensors of strings.
std::set<std::string> texts_of(const onnx::GraphProto& graph) {
  std::set<std::string> names;
  for (const auto* infos : {&graph.inputs, &graph.outputs, &graph.value_infos})
    for (const onnx::ValueInfoProto& info : *infos)
      if (info.type.kind == onnx::TypeProto::Kind::tensor && info.type.elem_type == string_data_type)
        names.insert(info.name);
  return names;
}

bool reads_or_writes(const onnx::NodeProto& node, const std::set<std::string>& names) {
  const auto is_one = [&](const auto& name) { return names.contains(std::string(name)); };
  return std::any_of(node.inputs.begin(), node.inputs.end(), is_one) ||
         std::any_of(node.outputs.begin(), node.outputs.end(), is_one);
}

}  // namespace

/// What runs a fused node.
struct Provider::ComputeInfo : NodeComputeInfo {
  ComputeInfo(const Host& of, std::unique_ptr<Subgraph> made) : host(of), subgraph(std::move(made)) {
    create_state = [](NodeComputeInfo* self, OrtNodeComputeContext*, void** state) -> OrtStatus* {
      *state = self;
      return nullptr;
    };
    compute = [](NodeComputeInfo* self, void*, OrtKernelContext* context) -> OrtStatus* {
      auto* own = static_cast<ComputeInfo*>(self);
      return own->host.guarded([&] { own->subgraph->run(context); });
    };
    release_state = [](NodeComputeInfo*, void*) {};
  }

  const Host& host;
  std::unique_ptr<Subgraph> subgraph;
};

Provider::Provider(const Host& host, const char* provider, const ProviderOptions& options, const Log& log)
    : host_(host), name_(provider), options_(options), log_(log), compatibility_(compatibility_text()) {
  if (options_.stream) {
    const DeviceId gpu = parse_device_id(options_.settings.build.device);
    cuda::check_stream(GpuMemory::of(gpu.ordinal()).device(), *options_.stream);
  }
  name = [](const Ep* self) { return static_cast<const Provider*>(self)->name_; };
  if (options_.memory.is_gpu()) {
    copies_ = std::make_unique<CopyKernels>(host, provider, options_.stream && !*options_.stream);
    create_stream = [](Ep* self, const OrtMemoryDevice* device, SyncStream** stream) {
      auto* own = static_cast<Provider*>(self);
      return own->host_.guarded([&] { *stream = make_stream_for(own->host_, device, own->options_.stream); });
    };
    kernel_registry = [](Ep* self, const OrtKernelRegistry** registry) -> OrtStatus* {
      *registry = static_cast<Provider*>(self)->copies_->registry();
      return nullptr;
    };
  }
  get_capability = [](Ep* self, const OrtGraph* graph, OrtEpGraphSupportInfo* support) {
    auto* own = static_cast<Provider*>(self);
    return own->host_.guarded([&] { own->find_nodes(graph, support); });
  };
  compile = [](Ep* self, const OrtGraph** graphs, const OrtNode** fused_nodes, size_t count, NodeComputeInfo** infos,
               OrtNode** context_nodes) {
    auto* own = static_cast<Provider*>(self);
    return own->host_.guarded([&] {
      for (size_t i = 0; i < count; ++i)
        infos[i] = new ComputeInfo(
            own->host_, own->subgraph_of(graphs[i], fused_nodes[i], context_nodes ? context_nodes + i : nullptr));
    });
  };
  release_compute_infos = [](Ep*, NodeComputeInfo** infos, size_t count) {
    for (size_t i = 0; i < count; ++i) delete static_cast<ComputeInfo*>(infos[i]);
  };
  compatibility = [](Ep* self, const OrtGraph*) { return static_cast<Provider*>(self)->compatibility_.c_str(); };
  runs_concurrently = [](Ep*, bool* does) -> OrtStatus* {
    *does = true;
    return nullptr;
  };
  for (const std::string& message : options_.unused) log_.info(message);
}

void Provider::find_nodes(const OrtGraph* graph, OrtEpGraphSupportInfo* support) {
  offers_.clear();
  failure_ = nullptr;
  if (is_body(host_, graph)) return;
  const GraphFacts facts = read_graph(host_, graph);
  for (size_t n = 0; n < facts.nodes.size(); ++n)
    if (is_context_node(host_, facts.nodes[n])) offer_nodes(facts, {n}, support);
  offer(facts, support);
}

std::vector<bool> Provider::nodes_that_can(const GraphFacts& facts) const {
  // Inputs of the graph are the values that no node computes.
  onnx::ModelProto model = facts.model;
  std::set<std::string> computed;
  for (const onnx::NodeProto& node : model.graph.nodes) computed.insert(node.outputs.begin(), node.outputs.end());
  for (const onnx::ValueInfoProto& info : model.graph.value_infos)
    if (!computed.contains(info.name) && (info.type.shape || info.type.kind != onnx::TypeProto::Kind::tensor))
      model.graph.inputs.push_back(info);
  model.graph.outputs.clear();  // their types are among value_infos
  std::vector<std::string> reasons = onnx::refused_nodes(model);
  const std::set<std::string> texts = options_.memory.is_gpu() ? texts_of(model.graph) : std::set<std::string>();
  std::vector<bool> can;
  for (size_t n = 0; n < facts.nodes.size(); ++n) {
    const std::string& op = model.graph.nodes[n].op_type;
    if (reads_or_writes(model.graph.nodes[n], texts)) reasons[n] = "texts are in the host's memory alone";
    if (facts.is_taken[n]) reasons[n] = "another provider has it";
    if (!facts.unreadable[n].empty()) reasons[n] = facts.unreadable[n];
    if (options_.excluded.contains(op)) reasons[n] = "the option exclude-operators names it";
    if (is_context_node(host_, facts.nodes[n])) reasons[n] = "it holds an engine";
    can.push_back(reasons[n].empty());
  }
  explain(facts, reasons);
  return can;
}

void Provider::explain(const GraphFacts& facts, const std::vector<std::string>& reasons) const {
  if (!log_.hears(info_message)) return;
  for (size_t n = 0; n < reasons.size(); ++n)
    if (!reasons[n].empty())
      log_.info(fmt::format("Camshaft: node '{}' ({}) is left to other providers: {}", facts.model.graph.nodes[n].name,
                            facts.model.graph.nodes[n].op_type, reasons[n]));
}

void Provider::offer(const GraphFacts& facts, OrtEpGraphSupportInfo* support) {
  std::vector<bool> can = nodes_that_can(facts);
  std::map<Group, Offer> built;
  // What cannot be built is taken out, which may leave others in other groups.
  for (;;) {
    std::vector<Group> groups = groups_of(facts, can);
    std::erase_if(groups, [&](const Group& group) { return group.size() < options_.least_nodes; });
    bool all_built = true;
    for (const Group& group : groups) {
      if (built.contains(group)) continue;
      onnx::ModelProto model = model_of(facts, group);
      if (model.graph.outputs.empty()) continue;
      // By itself it may lack what nodes outside tell of its inputs.
      std::vector<std::string> reasons;
      if (group.size() < facts.nodes.size()) reasons = onnx::refused_nodes(model);
      bool is_whole = true;
      for (size_t i = 0; i < reasons.size(); ++i)
        if (!reasons[i].empty()) is_whole = can[group[i]] = false;
      std::optional<Engine> engine;
      const std::vector<std::string> outputs = output_names_of(model);
      try {
        if (is_whole) engine = make_engine(std::move(model), options_, log_);
      } catch (const Error&) {
        failure_ = std::current_exception();
        return offer_nodes(facts, group, support);
      }
      if (engine) {
        built.emplace(group, Offer{outputs, std::move(*engine)});
        continue;
      }
      all_built = false;
      if (is_whole)
        for (const size_t node : group) can[node] = false;
      break;
    }
    if (!all_built) continue;
    size_t taken = 0;
    for (const Group& group : groups) {
      const auto it = built.find(group);
      if (it == built.end()) continue;
      offer_nodes(facts, group, support);
      offers_.push_back(it->second);
      taken += group.size();
    }
    log_.info(fmt::format("Camshaft: {} of {} nodes are in {} engines", taken, facts.nodes.size(), offers_.size()));
    return;
  }
}

void Provider::offer_nodes(const GraphFacts& facts, const Group& group, OrtEpGraphSupportInfo* support) const {
  std::vector<const OrtNode*> nodes;
  for (const size_t node : group) nodes.push_back(facts.nodes[node]);
  FusionOptions fusion;
  fusion.drop_constant_initializers = true;  // engines have their own
  host_.check(host_.ep().add_nodes_to_fuse(support, nodes.data(), nodes.size(), &fusion), slot("GetEpApi"));
}

std::unique_ptr<Subgraph> Provider::subgraph_of(const OrtGraph* graph, const OrtNode* fused, OrtNode** context_node) {
  const std::vector<std::string> inputs = input_names(host_, fused), outputs = output_names(host_, fused);
  const std::string model_path = host_.get<const char*>(slot("Graph_GetModelPath"), graph);
  size_t count = host_.get<size_t>(slot("Graph_GetNumNodes"), graph);
  if (count == 1) {
    const OrtNode* node = nullptr;
    host_.ask(slot("Graph_GetNodes"), graph, &node, count);
    if (is_context_node(host_, node)) {
      Engine engine = load_context_node(host_, node, options_.settings.build.device,
                                        std::filesystem::path(model_path).parent_path().string());
      return std::make_unique<Subgraph>(host_, std::move(engine), options_, inputs, outputs);
    }
  }
  if (failure_) std::rethrow_exception(failure_);
  const auto offered = std::find_if(offers_.begin(), offers_.end(),
                                    [&](const Offer& offer) { return offer.outputs == sorted(outputs); });
  if (offered == offers_.end())
    throw Error(ErrorCode::internal, "ONNX Runtime asks for nodes that were not offered to it");
  auto subgraph = std::make_unique<Subgraph>(host_, offered->engine, options_, inputs, outputs);
  if (options_.makes_context_nodes && context_node) {
    const std::string name = host_.get<const char*>(slot("Node_GetName"), fused);
    *context_node = make_context_node(host_, offered->engine, options_, name, model_path);
  }
  return subgraph;
}

}  // namespace camshaft::ort_provider
