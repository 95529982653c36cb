// What an engine rounds beside what any does, as noise for the reference evaluation.
#pragma once

#include <map>
#include <set>
#include <string>

#include "ir/graph.h"
#include "reference/rounding.h"
#include "runtime/engine.h"

namespace camshaft {

/// Of an engine and the model that it was made of, by the model's nodes:
/// - Those that approximate tactics compute (Deviation::rounding) sum up less precisely.
/// - Those whose results the engine stores as f16, or casts to it, move by half of f16's smallest step, or more.
/// - Numbers that a tactic approximates before it rounds them to 8 bits move by a quarter of moved_by_steps, of which
///   verification allows four times as much.
/// - Where other results are rounded to narrower types, those that steps on f32 or on bytes compute move as in f32, and
///   more only as operands of products that may round them: what bf16 makes of a quantised network moved most of its
///   values by a step.
class EngineNoise {
 public:
  EngineNoise(const Graph& model, const Engine& engine);

  /// What `noise`, which is that of all nodes, is of one of the model's, by its first result, as its readers see that,
  /// or of an input of the model.
  RoundingNoise of(ValueId value, RoundingNoise noise) const;
  RoundingNoise of(const Node& node, RoundingNoise noise) const { return of(node.outputs[0], noise); }
  /// The same of the result alone, before a product rounds it as its operand.
  RoundingNoise of_result(ValueId value, RoundingNoise noise) const;

  /// Whether steps of the engine give floats of 16 or 8 bits, and not only round operands as they read them.
  bool stores_narrow() const { return stores_narrow_; }

  /// The same of engines that round alike.
  const std::string& key() const { return key_; }

 private:
  std::set<ValueId> approximate_, stored_as_f16_, before_steps_;  // the first results of nodes
  std::set<ValueId> wide_, narrowed_;  // the same, and inputs: not rounded to narrower types; for some product they are
  bool stores_narrow_ = false;
  std::string key_;
};

/// From here on noise is that of narrow types, to which operands of products are rounded, too.
constexpr double narrow_noise = 0x1p-11;

/// The graph with constant matrices and filters of its products and convolutions moved by `part` of themselves: they
/// are rounded once, so that what that does is the same for all rows of a product.
Graph with_noisy_weights(Graph graph, double part, uint64_t seed);

}  // namespace camshaft
