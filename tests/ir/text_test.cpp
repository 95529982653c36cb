// The text form: print and parse are inverse, and what is wrong is refused with its place.
#include "ir/text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "ir/verify.h"
#include "test_ops.h"
#include "test_random.h"

namespace camshaft::text_test {
namespace {

using namespace test_ops;

const OpRegistry ops = registry();
const PrintOptions all{.max_constant_elements = -1, .sources = true};

void expect_round_trip(const Graph& graph) {
  const std::string text = print(graph, all);
  Graph back;
  try {
    back = parse_graph(text, ops);
  } catch (const Error& e) {
    FAIL() << e.what() << "\n" << text;
  }
  EXPECT_TRUE(equal(back, graph)) << text;
  EXPECT_EQ(back.name, graph.name);
  EXPECT_EQ(print(back, all), text);
}

// The message that parsing gives.
std::string error_of(const std::string& text) {
  try {
    parse_graph(text, ops);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
    return e.what();
  }
  return "no error";
}

#define EXPECT_ERROR(text, place, what)                                        \
  do {                                                                         \
    const std::string message = error_of(text);                                \
    EXPECT_NE(message.find("line " place ": "), std::string::npos) << message; \
    EXPECT_NE(message.find(what), std::string::npos) << message;               \
  } while (false)

// As engines have the weights that kernels read in packed form only.
TEST(Text, PrintsConstantsWithoutElements) {
  Graph g;
  g.name = "packed";
  g.add_output("w", g.add_constant("w", Tensor::elided(DType::f32, {5})));
  EXPECT_NE(print(g).find("const %w: f32[5] = <20 bytes, packed>"), std::string::npos) << print(g);
}

TEST(Text, PrintsAsDocumented) {
  Graph g;
  g.name = "tiny";
  const ValueId x = g.add_input("x", {DType::f32, {Dim::symbol("batch"), 2}});
  const ValueId w = g.add_constant("w", Tensor::of<float>(DType::f32, {2, 2}, {0.1f, -1, 1e30f, 0.5f}));
  const ValueId big = g.add_constant("big", Tensor::of<float>(DType::f32, {1, 20}, std::vector<float>(20, 2.5f)));
  std::vector<int32_t> many(20, 1);
  many[3] = 2;
  g.add_constant("many", Tensor::of<int32_t>(DType::i32, {20}, many));
  const ValueId y = g.add(MatMul{}, {x, w}, "y", {"MatMul_3"});
  const ValueId z = g.add(Add{}, {y, no_value, y}, "z");
  g.add_output("logits", z);
  g.add_output("y", y);
  (void)big;
  const std::string text = print(g);
  EXPECT_EQ(text.substr(0, text.find("  const %many")), R"(graph "tiny" (%x: f32[batch, 2]) {
  const %w: f32[2, 2] = [0.1, -1, 1e+30, 0.5]
  const %big: f32[1, 20] = 2.5
)");
  EXPECT_NE(text.find("const %many: i32[20] = <80 bytes, hash "), std::string::npos) << text;
  EXPECT_EQ(text.substr(text.find("  %y:")), R"(  %y: f32[batch, 2] = matmul {transpose_b=false} (%x, %w)
  %z: f32[batch, 2] = add (%y, -, %y)
  return "logits" = %z, %y
}
)");
  EXPECT_NE(print(g, {.sources = true}).find("(%x, %w) from \"MatMul_3\"\n"), std::string::npos);
  EXPECT_THROW(parse_graph(text, ops), Error) << "the elements are missing";
  expect_round_trip(g);
}

TEST(Text, WrittenByHand) {
  const Graph g = parse_graph(R"(
    # A comment.
    graph (%x: f32[batch, 3], %mask: bool[]) {
      const %w: f32[3, 2] = [[1, 2], [3.5, -inf], [1e-3, nan]]   # nested for the reader
      const %ones: f32[3, 2] = 1
      %s = add(%w, %ones)
      %y = matmul{} (%x, %s)
      %a, %b: f32[batch - floor_div(batch, 2), 2], %n: i64['@n.0'] = split(%y)
      %z = everything {rounding=down, reals=[1, 2], dim=3, shape=[1, 2], text=word, real=2} (%y)
      return scores = %z, %y, "n"=%n, %mask
    })",
                              ops);
  verify(g, "parsing");
  EXPECT_EQ(g.name, "");
  EXPECT_EQ(g.output_names, (std::vector<std::string>{"scores", "y", "n", "mask"}));
  EXPECT_EQ(to_string(g.type(g.outputs[0])), "f32[batch, 2]");
  const auto* op = g.nodes[3].op.as<Everything>();
  ASSERT_NE(op, nullptr);
  EXPECT_EQ(op->rounding, Rounding::down);
  EXPECT_EQ(op->reals, (std::vector<double>{1, 2}));
  EXPECT_EQ(op->dim, Dim(3));
  EXPECT_EQ(op->shape, (Shape{1, 2}));
  EXPECT_EQ(op->text, "word");
  EXPECT_EQ(g.values[static_cast<size_t>(g.nodes[0].inputs[1])].constant->to_doubles(), std::vector<double>(6, 1.0));
  expect_round_trip(g);
  expect_round_trip(parse_graph("graph(){return}", ops));
}

TEST(Text, OddNames) {
  Graph g;
  g.name = "a \"quoted\"\n\\ name";
  std::vector<ValueId> ids;
  for (const char* name : {"/layer.0/MatMul_output_0", "x:0", "two words", "\"", "back\\slash", "-", "const", "return",
                           "3", "a,b", "tab\there", "\xc3\xa9t\xc3\xa9", "(", "graph"})
    ids.push_back(g.add_input(name, {DType::f32, {Dim::symbol(name), 2}}));
  ValueId last = ids[0];
  for (const ValueId id : ids) last = g.add(ShapeOf{}, {id}, "shape of " + g.value(id).name, {"source \"q\"", "from"});
  g.add_output("out put = %", last);
  g.add_output("", last);
  expect_round_trip(g);
  EXPECT_EQ(parse_graph(print(g, all), ops).nodes[0].sources, g.nodes[0].sources);
}

TEST(Text, Fields) {
  Graph g;
  const ValueId x = g.add_input("x", {DType::f32, {2}});
  Everything e;
  g.add(e, {x}, "defaults");
  e.integer = std::numeric_limits<int64_t>::min();
  e.small = 255;
  e.real = 0.1f;
  e.wide = -std::numeric_limits<double>::infinity();
  e.flag = true;
  e.text = "a \"text\"\n\\x41 \x01";
  e.dtype = DType::f8e4m3;
  e.rounding = Rounding::to_even;
  e.integers = {-1, 0, std::numeric_limits<int64_t>::max()};
  e.reals = {1, 0.1, 1e300, -2.5, std::numeric_limits<double>::denorm_min()};
  e.texts = {"", "a, b", "]"};
  e.dim = floor_div(Dim::symbol("a (b), c"), 2) - 1;
  e.shape = {Dim::symbol("it's"), min(Dim::symbol("h"), 4), 7};
  g.add(e, {x}, "full");
  e.wide = 1;
  e.reals = {std::numeric_limits<double>::infinity(), 3};
  g.add_output("y", g.add(e, {x}, "other"));
  expect_round_trip(g);
}

TEST(Text, ConstantsOfAllTypes) {
  Graph g;
  const auto floats = {0.0, -0.0, 1.0, -1.5, 0.125, 6.0};
  for (int d = 0; d < dtype_count; ++d) {
    const auto dtype = static_cast<DType>(d);
    if (holds_objects(dtype)) continue;
    const std::string name(to_string(dtype));
    g.add_constant(name + "_none", Tensor(dtype, {0, 3}));
    for (const double v : floats)
      if (v >= 0 || is_signed(dtype)) g.add_constant(name, Tensor::scalar(dtype, v));
    // All bytes there are: every NaN, every denormal, padding nibbles.
    Tensor bytes(dtype, {7, 73});
    for (size_t i = 0; i < bytes.bytes(); ++i) bytes.mutable_data()[i] = static_cast<std::byte>(i * 37);
    g.add_constant(name + "_all", bytes);
    g.add_constant(name + "_same", Tensor(dtype, {3, 3}));
  }
  g.add_constant("s", Tensor::of<std::string>(DType::string, {3}, {"", "a \"b\"", std::string("\0\n", 2)}));
  g.add_constant("t", Tensor::of<std::string>(DType::string, {2}, {"x", "x"}));
  const double inf = std::numeric_limits<double>::infinity();
  g.add_constant("f", Tensor::of<double>(DType::f64, {4}, {inf, -inf, std::nan(""), 0.1}));
  for (size_t v = 0; v < g.values.size(); ++v) g.add_output(g.values[v].name, static_cast<ValueId>(v));
  expect_round_trip(g);
}

TEST(Text, RandomFloatsAreExact) {
  Random random = test_random();
  Graph g;
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    Tensor t(dtype, {500});
    for (size_t i = 0; i < t.bytes(); i += 2) {
      const auto bits = static_cast<uint16_t>(random.next());
      std::memcpy(t.mutable_data() + i, &bits, 2);
    }
    const std::string name(to_string(dtype));
    g.add_constant(name, std::move(t));
    g.add_output(name, static_cast<ValueId>(g.values.size()) - 1);
  }
  expect_round_trip(g);
}

TEST(Text, Bodies) {
  const auto body = [](const Graph* inner) {
    Graph b;
    b.name = inner ? "outer" : "";
    const ValueId x = b.add_input("x", {DType::f32, {Dim::symbol("n"), 4}});
    const ValueId c = b.add_constant("c", Tensor::of<float>(DType::f32, {1, 4}, {1, 2, 3, 4}));
    ValueId y = b.add(Add{}, {x, c}, "y");
    if (inner) y = b.add_node(Call{}, {y}, {"z"}, {"source"}, {*inner, *inner})[0];
    b.add_output("r", y);
    return b;
  };
  const Graph leaf = body(nullptr), middle = body(&leaf);
  Graph g;
  const ValueId x = g.add_input("x", {DType::f32, {Dim::symbol("n"), 4}});
  const ValueId y = g.add_node(Call{}, {x}, {"y"}, {}, {middle})[0];
  g.add_output("y", g.add(Add{}, {y, x}, "z"));
  verify(g, "building");
  expect_round_trip(g);
  Graph other = g;
  other.nodes[0].bodies[0].nodes[1].bodies[1].output_names[0] = "q";
  EXPECT_FALSE(equal(other, g));
}

TEST(Text, ErrorsSayWhere) {
  EXPECT_ERROR("", "1:1", "expected 'graph'");
  EXPECT_ERROR("graph", "1:6", "name or '('");
  EXPECT_ERROR("graph (%x) { return }", "1:10", "expected ':'");
  EXPECT_ERROR("graph (%x: f33[2]) { return }", "1:12", "unknown dtype");
  EXPECT_ERROR("graph (%x: f32[2, b +]) { return }", "1:19", "not a dimension expression");
  EXPECT_ERROR("graph (%x: f32[2) { return }", "1:17", "expected ']'");
  EXPECT_ERROR("graph (%x: f32[2], %x: f32[]) { return }", "1:20", "there is a value %x already");
  EXPECT_ERROR("graph () {\n  return %y\n}", "2:10", "%y is not defined");
  EXPECT_ERROR("graph () {\n  return %y", "2:10", "%y is not defined");
  EXPECT_ERROR("graph () {\n  what\n}", "2:3", "expected a node");
  EXPECT_ERROR("graph () {", "1:11", "expected a node");
  EXPECT_ERROR("graph () { return } graph", "1:21", "nothing behind the graph");
  const std::string head = "graph (%x: f32[2, 3]) {\n";
  EXPECT_ERROR(head + "%y = nothing (%x) return }", "2:6", "unknown operator 'nothing'");
  EXPECT_ERROR(head + "%y = matmul {typo=true} (%x, %x) return }", "2:6", "'matmul' has no field 'typo'; it has trans");
  EXPECT_ERROR(head + "%y = matmul {transpose_b=3} (%x, %x) return }", "2:6", "expected true or false");
  EXPECT_ERROR(head + "%y = matmul {transpose_b=true, transpose_b=true} (%x) return }", "2:6", "stands twice");
  EXPECT_ERROR(head + "%y = matmul {transpose_b} (%x, %x) return }", "2:25", "expected '='");
  EXPECT_ERROR(head + "%y = matmul (%x, %x) return }", "2:1", "the inner sizes differ");
  EXPECT_ERROR(head + "%y: f32[2] = add (%x) return }", "2:5", "%y is f32[2, 3] by the shape rule, not f32[2]");
  EXPECT_ERROR(head + "%y, %y = split (%x) return }", "2:5", "two results %y");
  EXPECT_ERROR(head + "%a, %b, %c, %d = split (%x) return }", "2:1", "3 outputs, 4 are asked for");
  EXPECT_ERROR(head + "%y = everything {texts=[\"a\", 3]} (%x) return }", "2:30", "either texts or numbers");
  EXPECT_ERROR(head + "%y = everything {integer=1x} (%x) return }", "2:26", "an integer of 64 bits");
  EXPECT_ERROR(head + "%y = everything {real=1.5.2} (%x) return }", "2:23", "expected a number");
  EXPECT_ERROR(head + "%y = everything {rounding=sideways} (%x) return }", "2:6", "one of the known names");
  EXPECT_ERROR(head + "%y = everything {text=\"a\\q\"} (%x) return }", "2:25", "expected \\\"");
  EXPECT_ERROR(head + "%y = everything {text=\"abc} (%x) return }", "2:23", "does not end");
}

TEST(Text, ErrorsInConstants) {
  const auto constant = [](const std::string& text) { return "graph () { const %c: " + text + " return }"; };
  EXPECT_ERROR(constant("f32[2] = [1]"), "1:31", "expected 2 elements, there are 1");
  EXPECT_ERROR(constant("f32[2] = [1, 2, 3]"), "1:31", "expected 2 elements, there are 3");
  EXPECT_ERROR(constant("f32[2] = [1, x]"), "1:35", "expected a f32");
  EXPECT_ERROR(constant("f32[2] = [1, ]"), "1:35", "expected an element");
  EXPECT_ERROR(constant("f32[2] = [1 2]"), "1:34", "expected ','");
  EXPECT_ERROR(constant("f32[2] = <8 bytes, hash 0>"), "1:31", "were not printed");
  EXPECT_ERROR(constant("f32[n] = 1"), "1:22", "constant dims");
  EXPECT_ERROR(constant("f32[0 - 1] = 1"), "1:22", "impossible tensor size");
  EXPECT_ERROR(constant("i8[1] = 128"), "1:30", "expected a i8");
  EXPECT_ERROR(constant("i4[1] = -9"), "1:30", "expected a i4");
  EXPECT_ERROR(constant("u8[1] = -1"), "1:30", "expected a u8");
  EXPECT_ERROR(constant("i64[1] = 1.5"), "1:31", "expected a i64");
  EXPECT_ERROR(constant("f8e4m3[1] = inf"), "1:34", "expected a f8e4m3");
  EXPECT_ERROR(constant("f8e4m3[1] = 1000"), "1:34", "expected a f8e4m3");
  EXPECT_ERROR(constant("f32[1] = nan(0x1)"), "1:31", "expected a f32");
  EXPECT_ERROR(constant("f32[1] = infinity"), "1:31", "expected a f32");
  EXPECT_ERROR(constant("string[1] = a"), "1:34", "in quotes");
  EXPECT_ERROR(constant("f32[1] = \"1\""), "1:31", "expected a f32");
}

TEST(Text, NestedTooDeep) {
  std::string text;
  for (int i = 0; i < 10000; ++i) text += "graph () { %a = call () ";
  EXPECT_NE(error_of(text).find("nested more than"), std::string::npos);
}

}  // namespace
}  // namespace camshaft::text_test
