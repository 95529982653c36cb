// What a decoder's layer does to its caches becomes one operator.
#include "backends/cuda/passes/update_caches.h"

#include <algorithm>

#include "ir/ops/contract.h"
#include "ir/ops/move.h"
#include "ir/ops/paged.h"
#include "ir/ops/paged_update.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/rotary_embedding.h"
#include "optimize/pass_test.h"
#include "reference/evaluate.h"
#include "reference/random_paged.h"

namespace camshaft::update_caches_test {
namespace {

struct Case {
  const char* what;
  DType rows = DType::f32, cache = DType::f32;
  bool batched = true;  // products of [1, tokens, k], as simplification leaves them
  bool biased = false;
  bool other_tables = false;    // of the key
  bool other_slots = false;     // of the values
  bool turned_is_read = false;  // the turned key is an output, too
  bool is_found = true;
};

constexpr int64_t tokens = 5, k = 16, heads = 4, key_heads = 2, size = 8, rotated = 6;

Graph graph_of(const Case& c, Random& random, const RandomPaged& step) {
  Graph g;
  const Dim t = Dim::symbol("tokens");
  const ValueId x = g.add_input("x", {c.rows, {t, k}}), slots = g.add_input("slots", {DType::i64, {t}}),
                keys = g.add_input("keys", {c.cache, {4, 3, key_heads, size}}),
                values = g.add_input("values", {c.cache, {4, 3, key_heads, size}});
  const ValueId cosine = g.add_input("cosine", {c.rows, {1, t, 1, rotated / 2}}),
                sine = g.add_input("sine", {c.rows, {1, t, 1, rotated / 2}});
  const auto product = [&](const std::string& name, int64_t width, bool batched) {
    const ValueId w = g.add_constant(name + ".w", random_tensor(random, c.rows, {width, k}));
    const ValueId from = batched ? g.add(ops::Reshape{{1, t, k}}, {x}, name + ".x") : x;
    ops::MatMul op;
    op.transpose_b = true;
    ValueId y = g.add(op, {from, w}, name);
    if (c.biased)
      y = g.add(ops::Pointwise{ScalarFunction::add},
                {y, g.add_constant(name + ".b", random_tensor(random, c.rows, {width}))}, name + ".biased");
    return y;
  };
  const auto turned = [&](ValueId rows, int64_t count, ValueId cosines, const std::string& name) {
    ops::RotaryEmbedding op{false, rotated, true, {t, count}, {0, count * size, size}, {}, {}, {1, t, count, size}};
    op.cosine = op.sine = {0, rotated / 2, 0, 0, 1};
    return g.add(op, {rows, cosines, sine}, name);
  };
  const ValueId query = turned(product("q", heads * size, c.batched), heads, cosine, "query");
  const ValueId others = c.other_tables ? g.add(ops::Pointwise{ScalarFunction::neg}, {cosine}, "others") : cosine;
  const ValueId key = turned(product("k", key_heads * size, c.batched), key_heads, others, "key");
  const ValueId value = product("v", key_heads * size, false);
  const auto stored = [&](ValueId cache, ValueId rows, ValueId at, const std::string& name) {
    ValueId heads_of = g.add(ops::Reshape{{t, key_heads, size}}, {rows}, name + ".rows");
    if (c.cache != c.rows) heads_of = g.add(ops::Cast{.to = c.cache}, {heads_of}, name + ".cast");
    return g.add(ops::PagedStore{}, {cache, heads_of, at}, name);
  };
  const ValueId at = c.other_slots ? g.add(ops::Pointwise{ScalarFunction::abs}, {slots}, "at") : slots;
  const ValueId new_keys = stored(keys, key, slots, "new_keys"), new_values = stored(values, value, at, "new_values");
  ops::PagedAttention op;
  op.heads = heads;
  const ValueId flat = g.add(ops::Reshape{{t, heads * size}}, {query}, "flat");
  const auto table = [&](size_t i, const char* name) { return g.add_constant(name, step.inputs[i]); };
  g.add_output("y",
               g.add(op, {flat, new_keys, new_values, table(3, "starts"), table(4, "past"), table(5, "table")}, "y"));
  g.add_output("new_keys", new_keys);
  g.add_output("new_values", new_values);
  if (c.turned_is_read) g.add_output("key", key);
  return g;
}

// Two sequences of tokens 0 to 2 and 3 to 4.
RandomPaged step_of() {
  RandomPaged step;
  const auto of = [](Dims dims, std::vector<int32_t> values) { return Tensor::of<int32_t>(DType::i32, dims, values); };
  step.inputs = {{}, {}, {}, of({3}, {0, 3, 5}), of({2}, {1, 0}), of({2, 2}, {2, 0, 1, 3})};
  return step;
}

int count(const Graph& graph, std::string_view name) {
  return static_cast<int>(
      std::count_if(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) { return node.op.name() == name; }));
}

TEST(UpdateCaches, EmbeddingsAndStoresBecomeOneOperator) {
  Random random = test_random();
  for (const Case& c : std::vector<Case>{
           {.what = "plain"},
           {.what = "matrices", .batched = false},
           {.what = "biased", .biased = true},
           {.what = "narrow cache", .cache = DType::f16},
           {.what = "other tables", .other_tables = true, .is_found = false},
           {.what = "other slots", .other_slots = true, .is_found = false},
           {.what = "the turned key is read", .turned_is_read = true, .is_found = false},
       }) {
    SCOPED_TRACE(c.what);
    Graph graph = graph_of(c, random, step_of());
    const Graph before = graph;
    update_caches(graph, test_context());
    verify(graph, "the pass under test");
    EXPECT_EQ(count(graph, "paged_update"), c.is_found ? 1 : 0) << print(graph);
    if (c.is_found) {
      EXPECT_EQ(count(graph, "paged_store") + count(graph, "rotary_embedding"), 0);
      // All three products read one value, so that they can be joined.
      for (const Node& node : graph.nodes)
        if (node.op.as<ops::MatMul>()) {
          EXPECT_EQ(node.inputs[0], graph.inputs[0]) << print(graph);
        }
    }
    std::vector<Tensor> inputs = {random_tensor(random, c.rows, {tokens, k}),
                                  Tensor::of<int64_t>(DType::i64, {tokens}, {7, 8, 0, 3, 4}),
                                  random_tensor(random, c.cache, {4, 3, key_heads, size}),
                                  random_tensor(random, c.cache, {4, 3, key_heads, size}),
                                  random_tensor(random, c.rows, {1, tokens, 1, rotated / 2}),
                                  random_tensor(random, c.rows, {1, tokens, 1, rotated / 2})};
    const std::vector<Tensor> expected = evaluate(before, inputs, test_pool()),
                              actual = evaluate(graph, inputs, test_pool());
    for (size_t o = 0; o < expected.size(); ++o) EXPECT_EQ(actual[o], expected[o]) << o;
  }
}

}  // namespace
}  // namespace camshaft::update_caches_test
