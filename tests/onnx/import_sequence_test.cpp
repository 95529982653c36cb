// Sequences, optionals and Scan as models have them.
#include <algorithm>
#include <limits>

#include "onnx/import_test_util.h"

namespace camshaft::onnx::testing::import_sequence_test {
namespace {

Tensor number(int64_t value) {
  return Tensor::of(DType::i64, {}, std::vector<int64_t>{value});
}
TypeWriter sequence_type() {
  return TypeWriter::sequence(TypeWriter::tensor(DType::f32));
}
TensorWriter constant(const std::string& name, int64_t value) {
  return TensorWriter(name, {}, std::vector<int64_t>{value});
}

const Tensor a = floats({2}, {1, 2}), b = floats({3}, {3, 4, 5});

TEST(ImportSequence, KnownElementsLeaveNoSequence) {
  const Graph graph = import_graph(GraphWriter()
                                       .input("a", DType::f32, {"n"})
                                       .input("b", DType::f32, {3})
                                       .output("y", DType::f32)
                                       .output("z", DType::f32)
                                       .output("n", DType::i64)
                                       .initializer(constant("first", 0))
                                       .initializer(constant("last", -1))
                                       .node("SequenceEmpty", {}, {"e"})
                                       .node("SequenceInsert", {"e", "b"}, {"s"})
                                       .node("SequenceInsert", {"s", "a", "first"}, {"t"})
                                       .node("SequenceInsert", {"t", "b"}, {"u"})
                                       .node("SequenceErase", {"u"}, {"v"})
                                       .node("SequenceAt", {"v", "last"}, {"y"})
                                       .node("ConcatFromSequence", {"v"}, {"z"}, {attr("axis", 0)})
                                       .node("SequenceLength", {"v"}, {"n"}),
                                   17);
  const auto names = op_names(graph);
  EXPECT_EQ(std::count(names.begin(), names.end(), "concat"), 1);
  EXPECT_EQ(std::count(names.begin(), names.end(), "sequence_at"), 0);
  EXPECT_EQ(std::count(names.begin(), names.end(), "sequence_insert"), 0);
  EXPECT_EQ(type_of_output(graph, 1), "f32[n + 3]");
  const auto out = run(graph, {a, b});
  EXPECT_EQ(out[0], b);
  EXPECT_EQ(out[1], floats({5}, {1, 2, 3, 4, 5}));
  EXPECT_EQ(out[2], number(2));
}

TEST(ImportSequence, SplitOfKnownPiecesBecomesSlices) {
  const Graph graph = import_graph(GraphWriter()
                                       .input("x", DType::f32, {4, "n"})
                                       .output("y", DType::f32)
                                       .initializer(constant("i", 1))
                                       .node("SplitToSequence", {"x"}, {"s"}, {attr("keepdims", 0)})
                                       .node("SequenceAt", {"s", "i"}, {"y"}),
                                   11);
  EXPECT_EQ(op_names(graph), (std::vector<std::string>{"slice", "reshape"}));
  EXPECT_EQ(type_of_output(graph), "f32[n]");
  EXPECT_EQ(run(graph, {floats({4, 1}, {1, 2, 3, 4})})[0], floats({1}, {2}));
}

TEST(ImportSequence, InputsAndOutputs) {
  const Graph graph = import_graph(GraphWriter()
                                       .input("s", sequence_type())
                                       .input("i", DType::i64, {})
                                       .output("y", DType::f32, {any_dim})
                                       .output("t", DType::f32)
                                       .node("SequenceAt", {"s", "i"}, {"y"})
                                       .node("SequenceErase", {"s", "i"}, {"t"}),
                                   11);
  EXPECT_EQ(to_string(graph.type(graph.inputs[0])), "seq[s.0]<f32[*]>");
  EXPECT_EQ(type_of_output(graph, 1), "seq[s.0 - 1]<f32[*]>");
  const auto out = run(graph, {Tensor::sequence({a, b}), number(-1)});
  EXPECT_EQ(out[0], b);
  EXPECT_EQ(out[1], Tensor::sequence({a}));
  EXPECT_THROW(run(graph, {Tensor::sequence({a, b}), number(2)}), Error);
  EXPECT_THROW(run(graph, {Tensor::sequence({number(1)}), number(0)}), Error);
}

TEST(ImportSequence, AnUndeclaredRankIsNamed) {
  const Error e = import_error(ModelWriter()
                                   .opset(11)
                                   .graph(GraphWriter()
                                              .input("s", sequence_type())
                                              .input("i", DType::i64, {})
                                              .output("y", DType::f32)
                                              .node("SequenceAt", {"s", "i"}, {"y"}))
                                   .bytes());
  EXPECT_EQ(e.code(), ErrorCode::unsupported);
  EXPECT_NE(std::string(e.what()).find("value_info"), std::string::npos) << e.what();
}

TEST(ImportSequence, MalformedNodesAreRefused) {
  const auto refused = [](const std::string& op, const std::vector<std::string>& inputs) {
    return import_error(ModelWriter()
                            .opset(17)
                            .graph(GraphWriter()
                                       .input("x", DType::f32, {2})
                                       .input("d", DType::f64, {2})
                                       .output("y", DType::f32)
                                       .initializer(constant("nine", 9))
                                       .node("SequenceConstruct", {"x"}, {"s"})
                                       .node(op, inputs, {"y"}))
                            .bytes())
        .code();
  };
  EXPECT_EQ(refused("SequenceAt", {"s", "nine"}), ErrorCode::invalid_model);
  EXPECT_EQ(refused("SequenceErase", {"s", "nine"}), ErrorCode::invalid_model);
  EXPECT_EQ(refused("SequenceInsert", {"s", "d"}), ErrorCode::invalid_model);
  EXPECT_EQ(refused("SequenceInsert", {"s", "x", "nine"}), ErrorCode::invalid_model);
  EXPECT_EQ(refused("SequenceConstruct", {"x", "d"}), ErrorCode::invalid_model);
  EXPECT_EQ(refused("SequenceLength", {"x"}), ErrorCode::invalid_model);
  EXPECT_EQ(refused("Relu", {"s"}), ErrorCode::invalid_model);
}

GraphWriter collecting_body() {
  return GraphWriter("body")
      .input("i", DType::i64, {})
      .input("on", DType::boolean, {})
      .input("s", sequence_type())
      .output("more", DType::boolean)
      .output("t", sequence_type())
      .node("Identity", {"on"}, {"more"})
      .node("SequenceInsert", {"s", "x"}, {"t"});
}

TEST(ImportSequence, LoopsCarrySequences) {
  const Graph graph = import_graph(GraphWriter()
                                       .input("x", DType::f32, {"n"})
                                       .input("m", DType::i64, {})
                                       .output("y", sequence_type())
                                       .node("SequenceEmpty", {}, {"e"})
                                       .node("Loop", {"m", "", "e"}, {"y"}, {attr("body", collecting_body())}),
                                   17);
  EXPECT_EQ(type_of_output(graph), "seq[@y.0]<f32[n]>");
  EXPECT_EQ(run(graph, {a, number(2)})[0], Tensor::sequence({a, a}));
  EXPECT_EQ(run(graph, {a, number(0)})[0], Tensor::sequence({}));
}

TEST(ImportSequence, AnEndlessLoopCanBeStopped) {
  const Graph graph = import_graph(GraphWriter()
                                       .input("x", DType::f32, {"n"})
                                       .output("y", DType::f32)
                                       .initializer(constant("m", std::numeric_limits<int64_t>::max()))
                                       .node("Loop", {"m", "", "x"}, {"y"},
                                             {attr("body", GraphWriter("body")
                                                               .input("i", DType::i64, {})
                                                               .input("on", DType::boolean, {})
                                                               .input("v", DType::f32)
                                                               .output("on", DType::boolean)
                                                               .output("v", DType::f32))}),
                                   17);
  ThreadPool pool(1);
  const Cancellation cancellation;
  cancellation.cancel();
  EvaluateOptions options;
  options.cancellation = &cancellation;
  try {
    evaluate(graph, {a}, pool, options);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::cancelled);
  }
}

TEST(ImportOptional, OfWhatIsKnownIsFolded) {
  const Graph graph = import_graph(GraphWriter()
                                       .input("x", DType::f32, {2})
                                       .output("y", DType::f32)
                                       .output("h", DType::boolean)
                                       .node("Optional", {"x"}, {"o"})
                                       .node("OptionalGetElement", {"o"}, {"g"})
                                       .node("OptionalHasElement", {"o"}, {"h"})
                                       .node("Neg", {"g"}, {"y"}),
                                   18);
  EXPECT_EQ(op_names(graph), std::vector<std::string>{"pointwise"});
  EXPECT_EQ(run(graph, {a})[1], Tensor::scalar(DType::boolean, 1));
}

TEST(ImportOptional, HasElementOfNothing) {
  const Graph graph = import_graph(GraphWriter().output("h", DType::boolean).node("OptionalHasElement", {}, {"h"}), 18);
  EXPECT_EQ(run(graph, {})[0], Tensor::scalar(DType::boolean, 0));
}

GraphWriter sums() {
  return GraphWriter("body")
      .input("sum", DType::f32)
      .input("next", DType::f32)
      .output("sum_out", DType::f32)
      .output("each", DType::f32)
      .node("Add", {"sum", "next"}, {"sum_out"})
      .node("Mul", {"sum_out", "k"}, {"each"});
}

TEST(ImportScan, AxesAndDirections) {
  const Graph graph = import_graph(GraphWriter()
                                       .input("start", DType::f32, {2})
                                       .input("x", DType::f32, {2, "n"})
                                       .input("k", DType::f32, {})
                                       .output("sum", DType::f32)
                                       .output("all", DType::f32)
                                       .node("Scan", {"start", "x"}, {"sum", "all"},
                                             {attr("body", sums()), attr("num_scan_inputs", 1),
                                              attr("scan_input_axes", {-1}), attr("scan_input_directions", {1}),
                                              attr("scan_output_axes", {-1}), attr("scan_output_directions", {1})}),
                                   11);
  EXPECT_EQ(type_of_output(graph, 0), "f32[2]");
  EXPECT_EQ(type_of_output(graph, 1), "f32[2, n]");
  const Tensor x = floats({2, 3}, {1, 2, 3, 4, 5, 6}), k = Tensor::scalar(DType::f32, 10);
  const auto out = run(graph, {floats({2}, {100, 200}), x, k});
  EXPECT_EQ(out[0], floats({2}, {106, 215}));
  // Last column first; collected from the back.
  EXPECT_EQ(out[1], floats({2, 3}, {1060, 1050, 1030, 2150, 2110, 2060}));
  const auto none = run(graph, {floats({2}, {100, 200}), floats({2, 0}, {}), k});
  EXPECT_EQ(none[0], floats({2}, {100, 200}));
  EXPECT_EQ(none[1].dims(), (Dims{2, 0}));
}

TEST(ImportScan, OfOperatorSet8HasABatch) {
  const Graph graph = import_graph(
      GraphWriter()
          .input("start", DType::f32, {"b", 1})
          .input("x", DType::f32, {"b", "n", 1})
          .input("k", DType::f32, {})
          .output("sum", DType::f32)
          .output("all", DType::f32)
          .node("Scan", {"", "start", "x"}, {"sum", "all"}, {attr("body", sums()), attr("num_scan_inputs", 1)}),
      8);
  EXPECT_EQ(type_of_output(graph, 1), "f32[b, n, 1]");
  const auto out =
      run(graph, {floats({2, 1}, {0, 100}), floats({2, 2, 1}, {1, 2, 3, 4}), Tensor::scalar(DType::f32, 1)});
  EXPECT_EQ(out[0], floats({2, 1}, {3, 107}));
  EXPECT_EQ(out[1], floats({2, 2, 1}, {1, 3, 103, 107}));
}

TEST(ImportScan, MalformedOnesAreRefused) {
  const auto refused = [](const std::vector<AttributeWriter>& attributes) {
    GraphWriter graph;
    graph.input("s", DType::f32, {2}).input("x", DType::f32, {3, 2}).input("k", DType::f32, {});
    std::vector<AttributeWriter> all{attr("body", sums())};
    all.insert(all.end(), attributes.begin(), attributes.end());
    graph.output("y", DType::f32).output("z", DType::f32).node("Scan", {"s", "x"}, {"y", "z"}, all);
    return import_error(ModelWriter().opset(11).graph(graph).bytes()).code();
  };
  EXPECT_EQ(refused({}), ErrorCode::invalid_model);
  EXPECT_EQ(refused({attr("num_scan_inputs", 0)}), ErrorCode::invalid_model);
  EXPECT_EQ(refused({attr("num_scan_inputs", 3)}), ErrorCode::invalid_model);
  EXPECT_EQ(refused({attr("num_scan_inputs", 1), attr("scan_input_axes", {2})}), ErrorCode::invalid_model);
  EXPECT_EQ(refused({attr("num_scan_inputs", 1), attr("scan_output_axes", {0, 0})}), ErrorCode::invalid_model);
  EXPECT_EQ(refused({attr("num_scan_inputs", 1), attr("scan_input_directions", {2})}), ErrorCode::invalid_model);
}

}  // namespace
}  // namespace camshaft::onnx::testing::import_sequence_test
