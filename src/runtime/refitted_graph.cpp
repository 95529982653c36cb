#include "runtime/refitted_graph.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "compile/lower.h"
#include "reference/replay.h"
#include "runtime/stacked_adapters.h"

namespace camshaft {

RefittedGraph::RefittedGraph(const Engine::Impl& engine, const GivenWeights& given) : engine_(engine), given_(given) {
  for (const InitializerRecord& record : *engine.initializers) records_[record.name] = &record;
  if (engine.lacks_weights) return;
  for (const Value& value : engine.graph.values) {
    if (!value.constant || !value.provenance) continue;
    if (const auto* initializer = value.provenance->as<Provenance::Initializer>()) plain_[initializer->name] = &value;
    if (is_affected(value)) stacked_.merge(matrices_of_stack(*value.constant, *value.provenance));
  }
}

bool RefittedGraph::is_affected(const Value& value) const {
  if (!value.constant || !value.provenance) return false;
  const std::set<std::string> names = initializer_names(*value.provenance);
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    if (engine_.lacks_weights) return records_.contains(name) && records_.at(name)->fixed_by.empty();
    return given_.contains(name);
  });
}

Tensor RefittedGraph::find(const std::string& name) const {
  if (const auto it = given_.find(name); it != given_.end()) return it->second.tensor;
  if (const auto it = records_.find(name); it != records_.end() && it->second->value.defined())
    return it->second->value;
  if (const auto it = stacked_.find(name); it != stacked_.end()) return it->second;
  const auto it = plain_.find(name);
  if (it == plain_.end()) return {};
  const Value& value = *it->second;
  return value.constant->is_elided() ? engine_.packed->unpack(value.name, *value.constant) : *value.constant;
}

void RefittedGraph::collect_missing(const Graph& graph, std::set<std::string>& names) const {
  for (const Value& value : graph.values) {
    if (!value.constant || !value.provenance) continue;
    const std::set<std::string> all = initializer_names(*value.provenance);
    // What is missing will be set, too, and asks for more.
    if (!is_affected(value) && std::none_of(all.begin(), all.end(), [&](const auto& n) { return names.contains(n); }))
      continue;
    for (const std::string& name : all) {
      const auto record = records_.find(name);
      const bool is_known = given_.contains(name) || plain_.contains(name) || stacked_.contains(name) ||
                            (record != records_.end() && record->second->value.defined());
      if (!is_known) names.insert(name);
    }
  }
  for (const Node& node : graph.nodes)
    for (const Graph& body : node.bodies) collect_missing(body, names);
}

std::vector<std::string> RefittedGraph::missing() const {
  std::set<std::string> names;
  size_t before = 0;
  do {
    before = names.size();
    collect_missing(engine_.graph, names);
  } while (names.size() != before);
  return {names.begin(), names.end()};
}

bool RefittedGraph::is_callers(const Tensor& tensor) const {
  return !tensor.owner() || std::any_of(given_.begin(), given_.end(), [&](const auto& item) {
    const GivenWeight& given = item.second;
    return given.is_callers && tensor.data() >= given.tensor.data() &&
           tensor.data() < given.tensor.data() + given.tensor.bytes();
  });
}

// Infinities of what is given are taken as they are; those that come of rounding to f16 are not.
void RefittedGraph::check_holds_f16(const Provenance& made_of, const std::string& constant, const Tensor& made) const {
  constexpr unsigned infinity = 0x7c00, without_sign = 0x7fff;
  const auto* bits = reinterpret_cast<const uint16_t*>(made.data());
  if (std::none_of(bits, bits + made.size(), [](uint16_t x) { return (x & without_sign) == infinity; })) return;
  const std::set<std::string> names = initializer_names(made_of);
  for (const std::string& name : names)
    for (const double x : find(name).to_doubles())
      if (!std::isfinite(x)) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("the constant '{}', of the initializers {}, would have numbers beyond 65504, the largest of "
                          "fp16, which the engine stores it in: build the new model with bf16 or tf32",
                          constant, fmt::join(names, ", ")));
}

void RefittedGraph::redo(Graph& graph, const std::vector<Keep>* keep, ThreadPool& pool) const {
  for (size_t v = 0; v < graph.values.size(); ++v) {
    Value& value = graph.values[v];
    if (!is_affected(value)) continue;
    Tensor made = replay(
        *value.provenance, [&](const std::string& name) { return find(name); }, pool);
    if (made.dtype() != value.constant->dtype() || made.dims() != value.constant->dims())
      throw Error(ErrorCode::corrupt_engine,
                  fmt::format("the constant '{}' is {}{}, and what it is made of gives {}{}", value.name,
                              to_string(value.constant->dtype()), to_string(value.constant->dims()),
                              to_string(made.dtype()), to_string(made.dims())));
    if (made.dtype() == DType::f16) check_holds_f16(*value.provenance, value.name, made);
    // What nothing but packing reads may stay where the caller has it.
    const bool is_read = !keep || (*keep)[v] != Keep::packed_only;
    if (is_read && is_callers(made)) made = made.copy();
    value.constant = std::make_shared<const Tensor>(std::move(made));
    if (value.content) value.content = constant_content(*value.constant);
  }
  for (Node& node : graph.nodes)
    for (Graph& body : node.bodies) {
      redo(body, nullptr, pool);
      for (const Value& value : body.values)
        if (value.constant && value.constant->is_elided())
          throw Error(ErrorCode::corrupt_engine,
                      fmt::format("the constant '{}' of a body has no bytes, and nothing to make them of", value.name));
    }
}

void RefittedGraph::elide(Engine::Impl& made, const std::vector<bool>& affected) const {
  const std::vector<Keep> keep = kept_constants(made);
  std::map<std::string, bool> comes_back;
  for (const PackedConstant* p : made.packed->all())
    comes_back[p->constant] |= p->layout == fallback_layout || made.backend->can_unpack(p->layout);
  for (size_t v = 0; v < keep.size(); ++v) {
    if (!affected[v] || keep[v] != Keep::packed_only) continue;
    Value& value = made.graph.values[v];
    const Tensor& plain = *value.constant;
    if (!comes_back[value.name]) {
      const auto kept = std::make_shared<const Tensor>(is_callers(plain) ? plain.copy() : plain);
      made.packed->add({value.name, std::string(fallback_layout), kept->span(), kept});
    }
    value.constant = std::make_shared<const Tensor>(Tensor::elided(plain.dtype(), plain.dims()));
    made.plan.values[v].constant = value.constant;
  }
}

namespace {

/// All of an engine without weights may be missing.
std::string some_of(const std::vector<std::string>& names) {
  constexpr size_t most = 8;
  if (names.size() <= most) return fmt::to_string(fmt::join(names, ", "));
  return fmt::format("{} and {} more (Refitter.missing has all)", fmt::join(names.begin(), names.begin() + most, ", "),
                     names.size() - most);
}

}  // namespace

std::shared_ptr<const Engine::Impl> RefittedGraph::compiled(int threads) const {
  if (const std::vector<std::string> names = missing(); !names.empty())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("a refit needs the initializers {} too: constants of the engine are made of them and of "
                            "what is set",
                            some_of(names)));
  ThreadPool pool(threads);
  auto made = std::make_shared<Engine::Impl>();
  made->backend = engine_.backend;
  made->graph = engine_.graph;
  made->profiles = engine_.profiles;
  made->optimum = engine_.optimum;
  made->metadata = engine_.metadata;
  made->explanations = engine_.explanations;
  made->storage = engine_.storage;
  made->initializers = engine_.initializers;
  std::vector<bool> affected;
  std::set<std::string> names;
  for (const Value& value : engine_.graph.values) {
    affected.push_back(is_affected(value));
    if (affected.back()) names.insert(value.name);
  }
  std::vector<Keep> keep;
  if (!engine_.lacks_weights) keep = kept_constants(engine_);
  for (Keep& each : keep) each = each == Keep::nothing ? Keep::bytes : each;
  redo(made->graph, keep.empty() ? nullptr : &keep, pool);

  made->packed = std::make_shared<PackedConstants>();
  made->packed->set_unpack([backend = made->backend](const PackedConstant& p, DType dtype, const Dims& dims) {
    return backend->unpack(p, dtype, dims);
  });
  for (const PackedConstant* p : engine_.packed->all())
    if (!names.contains(p->constant)) made->packed->add(*p);
  LowerOptions options;
  options.symbols = made->optimum;
  options.further_symbols = bind_further_profiles(made->graph, made->profiles);
  options.tactics = engine_.tactics;
  options.cores = threads;
  made->plan = lower(made->graph, *made->backend, *made->packed, options);
  made->finish();
  for (size_t n = 0; n < made->tactics.size(); ++n)
    if (!engine_.lacks_weights && made->tactics[n] != engine_.tactics[n])
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("the layer '{}' is computed by '{}', which does not take the new weights: build the new "
                              "model",
                              made->graph.value(made->graph.nodes[n].outputs[0]).name, engine_.tactics[n].first));
  elide(*made, affected);
  return made;
}

}  // namespace camshaft
