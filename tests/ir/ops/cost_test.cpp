#include "ir/ops/cost.h"

#include "ir/ops/attention.h"
#include "ir/ops/graph_text.h"
#include "ir/ops/recurrent.h"

namespace camshaft::ops::cost_test {
namespace {

// Of the last node.
Cost cost_of(const std::string& inputs, const std::string& body, const SymbolBindings& symbols = {}) {
  const Graph graph = parse("graph (" + inputs + ") {\n" + body + "\n}");
  const auto found = cost(graph, graph.nodes.back(), symbols);
  EXPECT_TRUE(found) << body;
  return found.value_or(Cost());
}

TEST(Cost, Products) {
  const std::string weights = "const %w: f32[4, 5] = 0.5\n";
  const Cost plain = cost_of("%x: f32[n, 3, 4]", weights + "%y = matmul {} (%x, %w)\nreturn %y", {{"n", 2}});
  EXPECT_EQ(plain.flops, 2 * 6 * 4 * 5);
  EXPECT_EQ(plain.constant_bytes, 4 * 20);
  EXPECT_EQ(plain.activation_bytes, 4 * (24 + 30));
  EXPECT_EQ(cost_of("%x: f32[4, 7]", weights + "%y = matmul {transpose_a=true} (%x, %w)\nreturn %y").flops,
            2 * 7 * 4 * 5);
}

TEST(Cost, Convolutions) {
  const std::string fields = "{strides=[2, 2], pads=shape(1, 1, 1, 1), dilations=[1, 1], groups=2}";
  const Cost conv =
      cost_of("%x: f32[1, 4, 8, 8]", "const %w: f32[6, 2, 3, 3] = 0.5\n%y = conv " + fields + " (%x, %w)\nreturn %y");
  EXPECT_EQ(conv.flops, 2 * 6 * 16 * 2 * 9);  // 6 channels of 4 by 4 points, 2 channels of 9 taps each
  const std::string transposed =
      "{strides=[2, 2], pads=shape(0, 0, 0, 0), dilations=[1, 1], output_padding=shape(0, 0), groups=1}";
  const Cost back = cost_of("%x: f32[1, 4, 8, 8]", "const %w: f32[4, 6, 2, 2] = 0.5\n%y = conv_transpose " +
                                                       transposed + " (%x, %w)\nreturn %y");
  EXPECT_EQ(back.flops, 2 * 4 * 64 * 6 * 4);
  const Cost moved = cost_of("%x: f32[1, 4, 8, 8], %o: f32[1, 18, 8, 8]",
                             "const %w: f32[6, 4, 3, 3] = 0.5\n%y = deform_conv {strides=[1, 1], dilations=[1, 1], "
                             "pads=shape(1, 1, 1, 1)} (%x, %w, %o)\nreturn %y");
  EXPECT_EQ(moved.flops, 2 * 6 * 64 * 4 * 9);
  EXPECT_EQ(moved.dtype, DType::f32);
}

TEST(Cost, Attention) {
  Attention op;
  op.outer = {2};
  op.queries = {Dim::symbol("n")};
  op.keys = {3};
  op.size = 4;
  op.value_size = 5;
  op.query = {0, 0, 4, 1};
  op.key = {0, 0, 4, 1};
  op.value = {0, 0, 5, 1};
  op.result = {0, Dim::symbol("n") * 5, 5, 1};
  op.shape = {Dim::symbol("n") * 10};
  Graph graph;
  const ValueId q = graph.add_input("q", {DType::f32, {Dim::symbol("n") * 8}});
  const ValueId k = graph.add_input("k", {DType::f32, {12}});
  const ValueId v = graph.add_input("v", {DType::f32, {15}});
  graph.add(op, {q, k, v}, "y");
  EXPECT_EQ(cost(graph, graph.nodes[0], {{"n", 7}})->flops, 2 * 2 * 7 * 3 * (4 + 5));
  EXPECT_EQ(cost(graph, graph.nodes[0], {{"n", 7}})->exponentials, 2 * 7 * 3);
  op.softcap = 30;
  graph.add(op, {q, k, v}, "z");
  EXPECT_EQ(cost(graph, graph.nodes[1], {{"n", 7}})->exponentials, 2 * 2 * 7 * 3);
}

TEST(Cost, Exponentials) {
  const auto pointwise = [](const std::string& function, const std::string& type = "f32") {
    return cost_of("%x: " + type + "[n, 4]", "%y = pointwise {function=" + function + "} (%x)\nreturn %y", {{"n", 3}})
        .exponentials;
  };
  for (const char* function : {"exp", "sigmoid", "tanh", "erf", "log", "log1p", "sin", "acosh"})
    EXPECT_EQ(pointwise(function), 12) << function;
  for (const char* function : {"neg", "sqrt", "reciprocal", "round"}) EXPECT_EQ(pointwise(function), 0) << function;
  EXPECT_EQ(pointwise("tanh", "f16"), 12);
  const auto power = [](const std::string& type) {
    return cost_of("%x: " + type + "[5, 1], %p: " + type + "[4]", "%y = pointwise {function=pow} (%x, %p)\nreturn %y")
        .exponentials;
  };
  EXPECT_EQ(power("f32"), 20);
  EXPECT_EQ(power("i64"), 0);
  EXPECT_EQ(cost_of("%x: f32[2, 5]", "%y = softmax {axis=1} (%x)\nreturn %y").exponentials, 10);
  EXPECT_EQ(cost_of("%x: f32[2, 5]", "%y = softmax {axis=1, log=true} (%x)\nreturn %y").exponentials, 10);
}

TEST(Cost, ExponentialsOfRecurrentCells) {
  const auto cell = [](CellKind kind, std::vector<std::string> activations, bool input_forget = false) {
    const int64_t gates = kind == CellKind::rnn ? 1 : kind == CellKind::gru ? 3 : 4, hidden = 5;
    const bool both = activations.size() > activations_per_direction(kind);
    const int64_t directions = both ? 2 : 1;
    Recurrent op{.cell = kind,
                 .direction = both ? Direction::bidirectional : Direction::forward,
                 .activations = activations,
                 .alphas = std::vector<double>(activations.size(), 1),
                 .betas = std::vector<double>(activations.size(), 1),
                 .input_forget = input_forget};
    Graph graph;
    const ValueId x = graph.add_input("x", {DType::f32, {Dim::symbol("t"), 2, 3}});
    const ValueId w = graph.add_input("w", {DType::f32, {directions, gates * hidden, 3}});
    const ValueId r = graph.add_input("r", {DType::f32, {directions, gates * hidden, hidden}});
    graph.add(op, {x, w, r}, "y");
    return cost(graph, graph.nodes[0], {{"t", 7}})->exponentials / (7 * 2 * 5);
  };
  EXPECT_EQ(cell(CellKind::lstm, {"sigmoid", "tanh", "tanh"}), 5);
  EXPECT_EQ(cell(CellKind::lstm, {"sigmoid", "tanh", "tanh"}, true), 4);
  EXPECT_EQ(cell(CellKind::lstm, {"sigmoid", "tanh", "tanh", "hardsigmoid", "relu", "tanh"}), 6);
  EXPECT_EQ(cell(CellKind::gru, {"sigmoid", "tanh"}), 3);
  EXPECT_EQ(cell(CellKind::rnn, {"relu"}), 0);
  EXPECT_EQ(cell(CellKind::rnn, {"softplus"}), 1);
}

// Of the dearer branch, not the most of either.
TEST(Cost, Branches) {
  const Cost cost = cost_of("%c: bool[], %x: f32[4, 4]", R"(%y = if {} (%c, %x)
      graph (%x: f32[4, 4]) {
        %p = matmul {} (%x, %x)
        return %p
      }
      graph (%x: f32[4, 4]) {
        %q = pointwise {function=exp} (%x)
        return %q
      }
    return %y)");
  EXPECT_EQ(cost.flops, 2 * 4 * 4 * 4);
  EXPECT_EQ(cost.exponentials, 0);
}

// Once at the border, and each operand once however often it is read.
TEST(Cost, Regions) {
  const Cost cost = cost_of("%x: f32[n, 4]", R"(const %w: f32[4, 4] = 0.5
    %y = region {kind=contract} (%x, %w)
      graph (%x: f32[n, 4], %w: f32[4, 4]) {
        %p = matmul {} (%x, %w)
        %q = pointwise {function=add} (%p, %x)
        %y = pointwise {function=exp} (%q)
        return %y
      }
    return %y)",
                            {{"n", 3}});
  EXPECT_EQ(cost.flops, 2 * 3 * 4 * 4);
  EXPECT_EQ(cost.exponentials, 3 * 4);
  EXPECT_EQ(cost.constant_bytes, 64);
  EXPECT_EQ(cost.activation_bytes, 2 * 48);
  EXPECT_EQ(cost_of("%x: f32[6]", "%y = pointwise {function=mul} (%x, %x)\nreturn %y").activation_bytes, 48);
}

// In what, and whether a device could use its units for matrices.
TEST(Cost, KindOfArithmetic) {
  const auto product = [](const std::string& type) {
    return cost_of("%x: " + type + "[3, 4]",
                   "const %w: " + type + "[4, 4] = 0.5\n%y = region {kind=contract} (%x, %w)\n graph (%x: " + type +
                       "[3, 4], %w: " + type + "[4, 4]) {\n%p = matmul {} (%x, %w)\nreturn %p\n}\nreturn %y");
  };
  EXPECT_EQ(product("f32").dtype, DType::f32);
  EXPECT_EQ(product("bf16").dtype, DType::bf16);
  EXPECT_TRUE(product("f16").is_matrix);
  const auto convolution = [](const std::string& weights, int groups) {
    return cost_of("%x: f16[1, 4, 8, 8]", "const %w: f16[" + weights +
                                              "] = 0.5\n%y = conv {strides=[1, 1], pads=shape(1, 1, 1, 1), "
                                              "dilations=[1, 1], groups=" +
                                              std::to_string(groups) + "} (%x, %w)\nreturn %y");
  };
  EXPECT_TRUE(convolution("6, 2, 3, 3", 2).is_matrix);
  EXPECT_FALSE(convolution("4, 1, 3, 3", 4).is_matrix);
  EXPECT_EQ(convolution("4, 1, 3, 3", 4).dtype, DType::f16);
  EXPECT_FALSE(cost_of("%x: f16[6]", "%y = pointwise {function=mul} (%x, %x)\nreturn %y").is_matrix);
}

// Heads of a wider projection cost what they are.
TEST(Cost, RotaryEmbedding) {
  const Cost cost =
      cost_of("%x: f32[3, 16], %c: f32[3, 2], %s: f32[3, 2]",
              "%y = rotary_embedding {rotated=4, axes=shape(3), x=shape(8, 16), cosine=shape(0, 2, 0, 1), "
              "sine=shape(0, 2, 0, 1), shape=shape(3, 4)} (%x, %c, %s)\nreturn %y");
  EXPECT_EQ(cost.activation_bytes, 4 * (12 + 12 + 6 + 6));
}

// A row of a large table costs a row.
TEST(Cost, PickedFromATable) {
  const Cost cost = cost_of("%i: i64[2]", "const %t: f32[1000, 8] = 0.5\n%y = gather {axis=0} (%t, %i)\nreturn %y");
  EXPECT_EQ(cost.flops, 0);
  EXPECT_EQ(cost.constant_bytes, 4 * 16);
  EXPECT_EQ(cost.activation_bytes, 8 * 2 + 4 * 16);
}

TEST(Cost, UnknownSizes) {
  const Graph graph = parse("graph (%x: f32[n, 4]) {\n%y = pointwise {function=neg} (%x)\nreturn %y\n}");
  EXPECT_FALSE(cost(graph, graph.nodes[0], {}));
  EXPECT_EQ(cost(graph, graph.nodes[0], {{"n", 0}})->activation_bytes, 0);
}

}  // namespace
}  // namespace camshaft::ops::cost_test
