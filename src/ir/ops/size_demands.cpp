#include "ir/ops/size_demands.h"

#include <algorithm>

#include "base/error.h"
#include "ir/ops/contract.h"
#include "ir/ops/pointwise.h"
#include "ir/symbols.h"

namespace camshaft::ops {

namespace {

class Demands {
 public:
  void of(const Graph& graph, const Node& node) {
    const auto shape = [&](size_t i) -> const Shape& { return graph.shape(node.inputs[i]); };
    if (const auto* conv = node.op.as<Conv>()) {
      const size_t channels = conv->channels_last ? shape(0).size() - 1 : 1;
      equal(shape(0)[channels], shape(1)[1] * Dim(conv->groups));
    } else if (const auto* transposed = node.op.as<ConvTranspose>()) {
      equal(shape(0)[transposed->channels_last ? shape(0).size() - 1 : 1], shape(1)[0]);
    } else if (const auto* product = node.op.as<MatMul>()) {
      const Shape &a = shape(0), &b = shape(1);
      equal(a[a.size() - (product->transpose_a ? 2 : 1)], b[b.size() - (product->transpose_b ? 1 : 2)]);
    } else if (node.op.as<Pointwise>()) {
      for (size_t i = 1; i < node.inputs.size(); ++i) broadcast(shape(i - 1), shape(i));
    }
  }

  std::vector<SizeDemand> take() { return std::move(found_); }

 private:
  void add(const Dim& a, const Dim& b, bool broadcasts) {
    const bool is_known = a == b || (a.is_constant() && b.is_constant());
    if (!is_known && !names_run_time_sizes({a, b})) found_.push_back({a, b, broadcasts});
  }
  void equal(const Dim& a, const Dim& b) { add(a, b, false); }
  void broadcast(const Shape& a, const Shape& b) {
    for (size_t i = 1; i <= std::min(a.size(), b.size()); ++i) {
      const Dim &x = a[a.size() - i], &y = b[b.size() - i];
      if (!(x == Dim(1)) && !(y == Dim(1))) add(x, y, true);
    }
  }

  std::vector<SizeDemand> found_;
};

}  // namespace

bool SizeDemand::is_met(const SymbolBindings& symbols) const {
  if (!is_bound({a, b}, symbols)) return true;
  try {
    const int64_t x = a.evaluate(symbols), y = b.evaluate(symbols);
    return x == y || (broadcasts && (x == 1 || y == 1));
  } catch (const Error&) {
    return false;
  }
}

std::vector<SizeDemand> size_demands(const Graph& graph) {
  Demands demands;
  for (const Node& node : graph.nodes) demands.of(graph, node);
  return demands.take();
}

}  // namespace camshaft::ops
