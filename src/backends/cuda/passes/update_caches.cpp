#include "backends/cuda/passes/update_caches.h"

#include <algorithm>
#include <map>
#include <optional>

#include "ir/ops/contract.h"
#include "ir/ops/move.h"
#include "ir/ops/paged.h"
#include "ir/ops/paged_update.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/rotary_embedding.h"
#include "ir/rewriter.h"
#include "optimize/analysis/match.h"

namespace camshaft {

namespace {

using Rotary = ops::RotaryEmbedding;

bool is_known(DType t) {
  return t == DType::f32 || t == DType::f16 || t == DType::bf16;
}

struct Update {
  ops::PagedUpdate op;
  std::vector<ValueId> inputs;
  std::vector<ValueId> results;  // in the order of the operator's
  std::vector<int32_t> nodes;    // that it takes the place of
};

class Finder {
 public:
  explicit Finder(const Graph& graph) : graph_(graph), uses_(graph) {}

  // The update that ends in what attention `n` reads.
  std::optional<Update> find(const Node& attention) const {
    using Op = ops::PagedAttention;
    const auto* op = attention.op.as<Op>();
    if (!op) return std::nullopt;
    const int32_t keys = producer(attention.inputs[Op::in_keys]), values = producer(attention.inputs[Op::in_values]);
    if (!is_store(keys) || !is_store(values) || keys == values) return std::nullopt;
    const Node &store_keys = node(keys), &store_values = node(values);
    const ValueId slots = store_keys.inputs[ops::PagedStore::in_slots];
    if (store_values.inputs[ops::PagedStore::in_slots] != slots) return std::nullopt;
    const Shape& cache = graph_.shape(store_keys.inputs[0]);
    const DType type = graph_.type(store_keys.inputs[0]).dtype;
    if (cache.size() != 4 || graph_.shape(store_values.inputs[0]).size() != 4 || !is_known(type) ||
        graph_.type(store_values.inputs[0]).dtype != type || !cache[2].is_constant() || !cache[3].is_constant())
      return std::nullopt;
    const int32_t query = rotary_behind(attention.inputs[Op::in_query], false);
    const int32_t key = rotary_behind(store_keys.inputs[ops::PagedStore::in_rows], true);
    if (query < 0 || key < 0 || query == key) return std::nullopt;
    const Dim &tokens = graph_.shape(attention.inputs[Op::in_query])[0], &size = cache[3];
    const auto angles = tables(node(query), tokens, Dim(op->heads), size);
    if (!angles || angles != tables(node(key), tokens, cache[2], size)) return std::nullopt;
    const auto& turn = *node(query).op.as<Rotary>();
    const auto& turn_key = *node(key).op.as<Rotary>();
    if (turn.interleaved != turn_key.interleaved || turn.rotated != turn_key.rotated || turn.rotated < 2)
      return std::nullopt;
    const ValueId value = rows_before(store_values.inputs[ops::PagedStore::in_rows], true);
    const DType rows = graph_.type(node(query).inputs[0]).dtype;
    if (!is_known(rows) || graph_.type(node(key).inputs[0]).dtype != rows || graph_.type(value).dtype != rows)
      return std::nullopt;
    Update update;
    update.op = {op->heads, turn.interleaved, turn.rotated};
    update.inputs = {rows_before(node(query).inputs[0], false),
                     rows_before(node(key).inputs[0], false),
                     value,
                     angles->first,
                     angles->second,
                     slots,
                     store_keys.inputs[0],
                     store_values.inputs[0]};
    update.results = {node(query).outputs[0], store_keys.outputs[0], store_values.outputs[0]};
    update.nodes = {query, key, keys, values};
    return is_read_alone(store_keys.inputs[ops::PagedStore::in_rows], key) && are_read_behind(update)
               ? std::optional(update)
               : std::nullopt;
  }

 private:
  const Node& node(int32_t n) const { return graph_.nodes[static_cast<size_t>(n)]; }
  int32_t producer(ValueId id) const { return uses_.producer[static_cast<size_t>(id)]; }
  bool is_store(int32_t n) const { return n >= 0 && node(n).op.as<ops::PagedStore>(); }

  // What rows are before they are given another shape and, of what is stored, the cache's type.
  ValueId rows_before(ValueId id, bool casts) const {
    for (int32_t n = producer(id); n >= 0; n = producer(id)) {
      const auto* cast = node(n).op.as<ops::Cast>();
      const bool is_view = node(n).op.as<ops::Reshape>() && node(n).inputs.size() == 1;
      const bool is_passed = casts && cast && is_known(cast->to) && is_known(graph_.type(node(n).inputs[0]).dtype);
      if (!is_view && !is_passed) break;
      id = node(n).inputs[0];
    }
    return id;
  }

  int32_t rotary_behind(ValueId id, bool casts) const {
    const int32_t n = producer(rows_before(id, casts));
    return n >= 0 && node(n).op.as<Rotary>() ? n : -1;
  }

  // Whether nothing but what is made of it, up to `id`, which one node reads, reads the result of a node.
  bool is_read_alone(ValueId id, int32_t of) const {
    for (int32_t n = producer(id);; n = producer(id)) {
      if (!uses_.single(id)) return false;
      if (n == of) return true;
      id = node(n).inputs[0];
    }
  }

  // The tables of an embedding that turns heads which lie side by side in the rows of a matrix, by a row of angles a
  // token.
  std::optional<std::pair<ValueId, ValueId>> tables(const Node& rotary, const Dim& tokens, const Dim& heads,
                                                    const Dim& size) const {
    const auto& op = *rotary.op.as<Rotary>();
    const Dim half(op.rotated / 2);
    const Shape angles = {0, half, 0, 0, 1};
    if (op.axes != Shape{tokens, heads} || op.x != Shape{0, heads * size, size} || op.cosine != angles ||
        op.sine != angles || !(op.shape.back() == size))
      return std::nullopt;
    for (size_t i = 0; i < Rotary::input_count; ++i) {
      const Dim elements = i == Rotary::in_x ? tokens * heads * size : tokens * half;
      if (!(product_of(graph_.shape(rotary.inputs[i])) == elements)) return std::nullopt;
    }
    return std::pair(rotary.inputs[Rotary::in_cosine], rotary.inputs[Rotary::in_sine]);
  }

  static Dim product_of(const Shape& shape) {
    Dim product(1);
    for (const Dim& d : shape) product = product * d;
    return product;
  }

  // Whether nothing reads a result before the last of the nodes.
  bool are_read_behind(const Update& update) const {
    const int32_t last = *std::max_element(update.nodes.begin(), update.nodes.end());
    for (const ValueId id : update.results)
      for (const int32_t reader : uses_.readers[static_cast<size_t>(id)])
        if (reader <= last) return false;
    return true;
  }

  const Graph& graph_;
  Uses uses_;
};

// Values of rows as matrices. Simplification has moved what gives rows an axis of 1, as the embedding of a whole batch
// has, in front of their products: it goes behind them again, so that those of queries, keys and values read one value.
class Matrices {
 public:
  explicit Matrices(Graph& graph) : graph_(graph), producers_(graph) {}

  ValueId of(ValueId id, const Dim& rows, const Dim& columns) {
    const Shape wanted{rows, columns};
    if (graph_.shape(id) == wanted) return id;
    const auto known = made_.find(id);
    if (known != made_.end() && graph_.shape(known->second) == wanted) return known->second;
    const ValueId matrix = make(id, wanted);
    made_[id] = matrix;
    return matrix;
  }

 private:
  ValueId make(ValueId id, const Shape& wanted) {
    const std::string name = graph_.value(id).name;
    const auto reshaped = [&] { return graph_.add(ops::Reshape{wanted}, {id}, name); };
    const Node* producer = producers_.find(id);
    if (!producer || producer->outputs.size() != 1) return reshaped();
    const Node node = *producer;  // adding invalidates it
    if (node.op.as<ops::Reshape>() && node.inputs.size() == 1 && graph_.shape(node.inputs[0]) == wanted)
      return node.inputs[0];
    if (graph_.shape(id) != Shape{Dim(1), wanted[0], wanted[1]}) return reshaped();
    const auto* product = node.op.as<ops::MatMul>();
    if (product && !product->transpose_a && graph_.shape(node.inputs[1]).size() == 2) {
      const ValueId x = node.inputs[0];
      return graph_.add(node.op, {of(x, wanted[0], graph_.shape(x).back()), node.inputs[1]}, name, node.sources);
    }
    if (!node.op.as<ops::Pointwise>() || !is_of_columns(node)) return reshaped();
    std::vector<ValueId> inputs = node.inputs;
    for (ValueId& input : inputs)
      if (graph_.shape(input).size() > 1) input = of(input, wanted[0], wanted[1]);
    return graph_.add(node.op, inputs, name, node.sources);
  }

  // Whether all operands are rows, or numbers of columns.
  bool is_of_columns(const Node& node) const {
    return std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) {
      return graph_.shape(id).size() < 2 || graph_.shape(id) == graph_.shape(node.outputs[0]);
    });
  }

  Graph& graph_;
  Producers producers_;
  std::map<ValueId, ValueId> made_;
};

}  // namespace

void update_caches(Graph& graph, const PassContext&) {
  std::vector<Update> updates;
  std::vector<int32_t> last_of(graph.nodes.size(), -1);  // which update takes the place of a node, the last of its own
  std::vector<bool> gone(graph.nodes.size());
  const Finder finder(graph);
  for (const Node& node : graph.nodes) {
    auto update = finder.find(node);
    if (!update || std::any_of(update->nodes.begin(), update->nodes.end(),
                               [&](int32_t n) { return gone[static_cast<size_t>(n)]; }))
      continue;
    for (const int32_t n : update->nodes) gone[static_cast<size_t>(n)] = true;
    last_of[static_cast<size_t>(*std::max_element(update->nodes.begin(), update->nodes.end()))] =
        static_cast<int32_t>(updates.size());
    updates.push_back(*std::move(update));
  }
  if (updates.empty()) return;
  Rewriter rewriter(graph);
  Matrices matrices(graph);
  for (size_t n = 0; n < rewriter.nodes().size(); ++n) {
    Node& node = rewriter.nodes()[n];
    if (!gone[n]) {
      rewriter.keep(std::move(node));
      continue;
    }
    if (last_of[n] < 0) continue;
    const Update& update = updates[static_cast<size_t>(last_of[n])];
    using Op = ops::PagedUpdate;
    std::vector<ValueId> inputs;
    for (const ValueId id : update.inputs) inputs.push_back(rewriter.resolve(id));
    const Shape keys = graph.shape(inputs[Op::in_keys]), values = graph.shape(inputs[Op::in_values]);
    const Dim tokens = graph.shape(inputs[Op::in_slots])[0], half(update.op.rotated / 2);
    const std::string& name = graph.value(update.results[Op::out_query]).name;
    const auto shape = [&](size_t i, const Dim& columns) { inputs[i] = matrices.of(inputs[i], tokens, columns); };
    shape(Op::in_query, Dim(update.op.heads) * keys[3]);
    shape(Op::in_key, keys[2] * keys[3]);
    shape(Op::in_value, values[2] * values[3]);
    shape(Op::in_cosine, half);
    shape(Op::in_sine, half);
    std::vector<std::string> sources;
    for (const int32_t of : update.nodes)
      sources = merged_sources(sources, rewriter.nodes()[static_cast<size_t>(of)].sources);
    std::vector<std::string> names;
    for (const ValueId id : update.results) names.push_back(graph.value(id).name);
    const std::vector<ValueId> made = graph.add_node(update.op, inputs, names, sources);
    const Shape turned = graph.shape(update.results[Op::out_query]);
    rewriter.replace(update.results[Op::out_query],
                     graph.shape(made[0]) == turned ? made[0] : graph.add(ops::Reshape{turned}, {made[0]}, name));
    rewriter.replace(update.results[Op::out_keys], made[Op::out_keys]);
    rewriter.replace(update.results[Op::out_values], made[Op::out_values]);
  }
  rewriter.finish();
}

}  // namespace camshaft
