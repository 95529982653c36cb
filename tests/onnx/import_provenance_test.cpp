// What the constants of an imported model say they come from.
#include <map>

#include "onnx/import_test_util.h"
#include "reference/replay.h"

namespace camshaft::onnx::testing::import_provenance_test {
namespace {

struct Named {
  Graph graph;
  std::map<std::string, Tensor> initializers;

  // Of every constant, bodies' included: its name, and the initializers that it says it stems from.
  std::map<std::string, std::set<std::string>> origins() const {
    std::map<std::string, std::set<std::string>> found;
    collect(graph, found);
    return found;
  }
  // Every constant that can be redone is what it is redone to.
  void expect_redone() const { expect_redone(graph); }

 private:
  static void collect(const Graph& graph, std::map<std::string, std::set<std::string>>& found) {
    for (const Value& value : graph.values)
      if (value.constant)
        found[value.name] = value.provenance ? initializer_names(*value.provenance) : std::set<std::string>();
    for (const Node& node : graph.nodes)
      for (const Graph& body : node.bodies) collect(body, found);
  }
  void expect_redone(const Graph& of) const {
    ThreadPool pool(1);
    for (const Value& value : of.values)
      if (value.constant && value.provenance && value.provenance->can_be_redone()) {
        EXPECT_TRUE(replay(
                        *value.provenance, [&](const std::string& name) { return initializers.at(name); }, pool) ==
                    *value.constant)
            << value.name;
      }
    for (const Node& node : of.nodes)
      for (const Graph& body : node.bodies) expect_redone(body);
  }
};

Named import_named(const ModelWriter& model) {
  Named named;
  const auto storage = std::make_shared<const std::string>(model.bytes());
  ImportOptions options;
  options.initializers = &named.initializers;
  named.graph = import_model(read_model(std::as_bytes(std::span(*storage)), "test.onnx", storage), options).graph;
  return named;
}

Named import_named(const GraphWriter& graph) {
  return import_named(ModelWriter().opset(16).graph(graph));
}

TensorWriter numbers(const std::string& name, const std::vector<float>& values) {
  return {name, {static_cast<int64_t>(values.size())}, values};
}

using Origins = std::map<std::string, std::set<std::string>>;

TEST(ImportProvenance, InitializersAndConstantNodes) {
  const Named model = import_named(GraphWriter()
                                       .input("x", DType::f32, {2})
                                       .output("y", DType::f32)
                                       .initializer(numbers("w", {1, 2}))
                                       .initializer(numbers("nobody reads it", {1, 2}))
                                       .node("Constant", {}, {"c"}, {attr("value", numbers("", {3, 4}))})
                                       .node("Mul", {"x", "w"}, {"p"})
                                       .node("Add", {"p", "c"}, {"q"})
                                       .node("LeakyRelu", {"q"}, {"y"}));
  const Origins origins = model.origins();
  EXPECT_EQ(origins.at("w"), std::set<std::string>{"w"});
  EXPECT_EQ(origins.at("c"), std::set<std::string>{"c"});
  for (const auto& [name, from] : origins)
    if (name != "w" && name != "c") {
      EXPECT_TRUE(from.empty()) << name << " is of an attribute";
    }
  EXPECT_EQ(model.initializers.size(), 2U);
  model.expect_redone();
}

TEST(ImportProvenance, FoldedBatchStatistics) {
  GraphWriter graph;
  graph.input("x", DType::f32, {1, 2, 1}).output("y", DType::f32);
  graph.initializer(numbers("scale", {1, 2})).initializer(numbers("bias", {0.1F, 1}));
  graph.initializer(numbers("mean", {1, 2})).initializer(numbers("var", {4, 0.3F}));
  graph.node("BatchNormalization", {"x", "scale", "bias", "mean", "var"}, {"y"});
  const Named model = import_named(graph);
  std::set<std::set<std::string>> all;
  for (const auto& [name, from] : model.origins()) all.insert(from);
  EXPECT_EQ(all, (std::set<std::set<std::string>>{{"scale", "var"}, {"bias", "mean", "scale", "var"}}));
  model.expect_redone();
}

TEST(ImportProvenance, SubGraphsNameTheirOwnAndWhatIsAround) {
  const auto branch = [](const char* op, const std::vector<float>& own) {
    return GraphWriter(op)
        .output("r", DType::f32)
        .initializer(numbers("k", own))
        .node("Mul", {"x", "w"}, {"t"})
        .node(op, {"t", "k"}, {"r"});
  };
  const Named model =
      import_named(GraphWriter()
                       .input("c", DType::boolean, {})
                       .input("x", DType::f32, {2})
                       .output("y", DType::f32)
                       .initializer(numbers("w", {1, 2}))
                       .node("If", {"c"}, {"y"},
                             {attr("then_branch", branch("Add", {1, 2})), attr("else_branch", branch("Sub", {3, 4}))},
                             {}, "choice"));
  std::set<std::string> named;
  for (const auto& [name, from] : model.origins()) named.insert(from.begin(), from.end());
  EXPECT_EQ(named.size(), 3U);
  EXPECT_TRUE(named.contains("w"));
  for (const std::string& name : named)
    if (name != "w") {
      EXPECT_TRUE(name.starts_with("choice") && name.ends_with("/k")) << name;
    }
  model.expect_redone();
}

// Calls of one name give a function's constants other values: each has a name of its own.
TEST(ImportProvenance, ConstantsOfFunctions) {
  const Named model =
      import_named(ModelWriter()
                       .opset(16)
                       .opset(1, "local")
                       .function(FunctionWriter("local", "Scaled")
                                     .input("a")
                                     .output("b")
                                     .attribute("factor")
                                     .opset(16)
                                     .node("Constant", {}, {"f"}, {attr_ref("value", "factor", AttributeType::tensor)})
                                     .node("Mul", {"a", "f"}, {"b"}))
                       .graph(GraphWriter()
                                  .input("x", DType::f32, {2})
                                  .output("y", DType::f32)
                                  .node("Constant", {}, {"call/f"}, {attr("value", numbers("", {7, 8}))})
                                  .node("Scaled", {"x"}, {"p"}, {attr("factor", numbers("", {1, 2}))}, "local", "call")
                                  .node("Scaled", {"p"}, {"q"}, {attr("factor", numbers("", {3, 4}))}, "local", "call")
                                  .node("Scaled", {"q"}, {"r"}, {attr("factor", numbers("", {1, 2}))}, "local", "call")
                                  .node("Add", {"r", "call/f"}, {"y"})));
  EXPECT_EQ(model.initializers.size(), 3U);
  EXPECT_EQ(model.initializers.at("call/f").to_doubles(), (std::vector<double>{7, 8}));
  model.expect_redone();
}

}  // namespace
}  // namespace camshaft::onnx::testing::import_provenance_test
