#include "builder/sample_points.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/ops/cost.h"
#include "reference/evaluate.h"
#include "runtime/engine_impl.h"

namespace camshaft {

namespace {

// Sizes of axes that nobody named: odd, so that every loop over them has a tail, and for models that take only
// multiples of a power of two.
constexpr int64_t other_sizes[] = {37, 96, 32};
constexpr int64_t other_batch = 2;
// Beyond the rows and columns that a kernel takes at a time, where other loops begin: of all axes, then of the first
// alone.
constexpr int64_t larger_batches[] = {37, 11}, larger_size = 211;
constexpr double larger_share = 0.1;  // of the time, or cheap models would take all of it
constexpr uint64_t other_seeds = 2;

// The optimum, with sizes of its own for every axis of an input that is free: `batch` for first axes.
SymbolBindings with_size(const Graph& model, const SymbolBindings& optimum, int64_t size, int64_t batch) {
  SymbolBindings symbols = optimum;
  for (const ValueId id : model.inputs) {
    const Shape& shape = model.shape(id);
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      std::vector<std::string> names;
      shape[axis].collect_symbols(names);
      for (const std::string& name : names) symbols.try_emplace(name, axis == 0 ? batch : size);
    }
  }
  return symbols;
}

// The first sample's sizes, with another batch.
SymbolBindings with_batch(const Graph& model, const SymbolBindings& optimum, SymbolBindings sizes, int64_t batch) {
  for (const auto& [name, size] : with_first_axes(model, optimum, batch))
    if (!optimum.contains(name)) sizes[name] = size;
  return sizes;
}

// Of a model that takes any size, beside those of the first sample.
std::vector<SamplePoint> points_of_any_size(const Graph& model, const SymbolBindings& optimum,
                                            const SymbolBindings& first, uint64_t seed) {
  SamplePoint other{"other sizes", seed, {}}, larger{"larger sizes", seed, {}, false, larger_share};
  for (const int64_t size : other_sizes) other.either.push_back(with_size(model, optimum, size, other_batch));
  other.either.push_back(with_batch(model, optimum, first, other_batch));
  for (const int64_t batch : larger_batches) larger.either.push_back(with_size(model, optimum, larger_size, batch));
  for (const int64_t batch : larger_batches) larger.either.push_back(with_batch(model, optimum, first, batch));
  return {std::move(other), std::move(larger)};
}

SymbolBindings bound_at(const Graph& model, Profile profile, std::vector<int64_t> ShapeRange::*bound) {
  for (auto& [name, range] : profile.inputs) range.opt = range.*bound;
  return bind_profile(model, profile);
}

}  // namespace

SymbolBindings with_first_axes(const Graph& model, const SymbolBindings& symbols, int64_t size) {
  SymbolBindings bound = symbols;
  for (const ValueId id : model.inputs) {
    if (model.shape(id).empty()) continue;
    std::vector<std::string> names;
    model.shape(id)[0].collect_symbols(names);
    for (const std::string& name : names) bound.try_emplace(name, size);
  }
  return bound;
}

SymbolBindings bind_inputs(const Graph& model, const std::vector<Dims>& shapes) {
  SymbolBindings symbols;
  for (size_t i = 0; i < shapes.size(); ++i)
    bind_symbols(model.shape(model.inputs[i]), shapes[i], fmt::format("input {}", i), symbols);
  return symbols;
}

bool has_empty_output(const Graph& model, const std::vector<Dims>& shapes) {
  const SymbolBindings symbols = bind_inputs(model, shapes);
  const auto is_empty = [&](const Dim& size) {
    try {
      return size.evaluate(symbols) == 0;
    } catch (const Error&) {
      return false;  // which only running tells
    }
  };
  return std::any_of(model.outputs.begin(), model.outputs.end(),
                     [&](ValueId id) { return std::any_of(model.shape(id).begin(), model.shape(id).end(), is_empty); });
}

std::vector<SamplePoint> further_points(const Graph& model, const std::vector<Profile>& profiles,
                                        const SymbolBindings& optimum, const std::vector<Dims>& first, uint64_t seed,
                                        int64_t adapters) {
  std::vector<SamplePoint> points;
  for (size_t p = 0; p < profiles.size(); ++p) {
    const auto add = [&](std::vector<int64_t> ShapeRange::*bound, const char* which) {
      points.push_back(
          {fmt::format("the {} shapes of profile {}", which, p), seed, {bound_at(model, profiles[p], bound)}, true});
    };
    add(&ShapeRange::min, "smallest");
    add(&ShapeRange::max, "largest");
    add(&ShapeRange::opt, "usual");
  }
  const SymbolBindings sizes = bind_inputs(model, first);
  if (profiles.empty() && with_size(model, optimum, 1, other_batch) != optimum)
    for (SamplePoint& point : points_of_any_size(model, optimum, sizes, seed)) points.push_back(std::move(point));
  const auto of_adapters = static_cast<uint64_t>(adapters);
  for (uint64_t further = 1; further <= std::max(other_seeds, of_adapters); ++further) {
    const bool is_promised = further <= of_adapters;
    points.push_back({is_promised ? "another adapter" : "another seed", seed + further, {sizes}, is_promised});
  }
  return points;
}

std::string describe_sample(const Graph& model, const std::vector<Dims>& shapes, uint64_t seed) {
  constexpr size_t most = 3;
  std::string text = fmt::format("seed {}", seed);
  for (size_t i = 0; i < shapes.size() && i < most; ++i)
    text += fmt::format(", {}: {}", model.value(model.inputs[i]).name, to_string(shapes[i]));
  return shapes.size() > most ? text + ", …" : text;
}

double work_of(const Graph& model, const std::vector<Dims>& shapes) {
  const SymbolBindings symbols = bind_inputs(model, shapes);
  double work = 0;
  for (const Node& node : model.nodes)
    if (const auto cost = ops::cost(model, node, symbols)) work += cost->flops + 4 * cost->bytes();
  return work;
}

}  // namespace camshaft
