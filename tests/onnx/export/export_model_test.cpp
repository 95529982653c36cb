// Names, constants, interfaces and refusals of models that are written.
#include "onnx/export/export_model.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>

#include "base/temporary_folder.h"
#include "ir/ops/pointwise.h"
#include "onnx/export/export_test.h"
#include "onnx/export/model_file.h"
#include "onnx/export/names.h"
#include "onnx/model_writer.h"
#include "reference/operator_samples.h"

namespace camshaft::onnx::export_model_test {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)

using F = ScalarFunction;

std::string refusal(const Graph& graph) {
  try {
    export_model(graph);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::unsupported) << e.what();
    return e.what();
  }
  return {};
}

/// docs/limits.md has the same list.
const std::set<std::string> not_exported = {
    "attention",        "gather_matmul",       "index_map",     "map_entries",       "paged_attention", "paged_store",
    "paged_quantize",   "paged_update",        "read_bytes_as", "round_blocks",      "region",          "row_norm",
    "rotary_embedding", "support_vector_vote", "row_moments",   "weight_only_matmul"};

TEST(ExportModel, EveryOperatorComesBackOrIsRefused) {
  ThreadPool pool(1);
  std::set<std::string> written, refused;
  for (const OperatorSample& sample : operator_samples(pool)) {
    const std::string name(sample.op.name());
    if (takes_containers(sample))
      continue;  // whose types are made of more than tensors: the standard's cases have them
    SCOPED_TRACE(to_string(sample.op));
    std::vector<Tensor> inputs;
    // These two have their parameters as attributes in ONNX.
    const bool takes_constants = name == "tree_ensemble" || name == "count_terms";
    const Graph graph = graph_of_sample(sample.op, sample, [&](Graph& to, size_t i) {
      if (takes_constants && i > 0) return to.add_constant("c", sample.operands[i]);
      inputs.push_back(sample.operands[i]);
      return to.add_input("x", type_of(sample.operands[i]));
    });
    if (const std::string message = refusal(graph); !message.empty()) {
      refused.insert(name);
      EXPECT_NE(message.find("(operator '" + name + "')"), std::string::npos) << message;
      continue;
    }
    written.insert(name);
    const Graph copy = read_back(export_model(graph));
    const std::vector<Tensor> expected = results(graph, inputs), actual = results(copy, inputs);
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(actual[i].dtype(), expected[i].dtype());
      ASSERT_EQ(actual[i].dims(), expected[i].dims());
      if (!is_floating(expected[i].dtype())) {
        EXPECT_TRUE(actual[i] == expected[i]);
        continue;
      }
      const std::vector<double> a = actual[i].to_doubles(), e = expected[i].to_doubles();
      for (size_t k = 0; k < e.size(); ++k) EXPECT_NEAR(a[k], e[k], 1e-5 * std::abs(e[k]) + 1e-6);
    }
  }
  EXPECT_GT(written.size(), 60u);
  std::set<std::string> expected = not_exported;
  expected.erase("map_entries");  // takes a map
  EXPECT_EQ(refused, expected);
}

TEST(ExportModel, HostileNamesStayWhereTheyCan) {
  Graph graph;
  const TensorType type{DType::f32, {2}};
  const ValueId x = graph.add_input("x/0:ü", type), y = graph.add_input("日本", type);
  const ValueId sum = graph.add(ops::Pointwise{F::add}, {x, y}, "out");
  const ValueId bad = graph.add(ops::Pointwise{F::neg}, {sum}, "bad\xff\x01");
  const ValueId empty = graph.add(ops::Pointwise{F::abs}, {bad}, "");
  graph.value(empty).name = "";
  const ValueId last = graph.add(ops::Pointwise{F::sqrt}, {empty}, "last");
  graph.add_output("out", last);  // the name of another value
  graph.add_output("日本語 out", last);
  const ModelProto model = export_model(graph);
  EXPECT_EQ(model.graph.inputs[0].name, "x/0:ü");
  EXPECT_EQ(model.graph.inputs[1].name, "日本");
  EXPECT_EQ(model.graph.outputs[0].name, "out");
  EXPECT_EQ(model.graph.outputs[1].name, "日本語 out");
  std::set<std::string> defined;
  for (const NodeProto& node : model.graph.nodes)
    for (const std::string& name : node.outputs) {
      EXPECT_TRUE(is_valid_name(name));
      EXPECT_TRUE(defined.insert(name).second) << name;
    }
  expect_same(graph, {Tensor::of<float>(DType::f32, {2}, {1, 2}), Tensor::of<float>(DType::f32, {2}, {3, -9})});
}

TEST(ExportModel, InterfacesThatONNXCannotHaveAreRefused) {
  for (const auto& [input, output, found] :
       {std::tuple("", "y", "no name"), std::tuple("x", "", "no name"), std::tuple("x\xff", "y", "no name"),
        std::tuple("x", "x", "two inputs or outputs")}) {
    Graph graph;
    const ValueId x = graph.add_input(input, {DType::f32, {2}});
    graph.value(x).name = input;
    graph.add_output(output, graph.add(ops::Pointwise{F::neg}, {x}, "n"));
    EXPECT_NE(refusal(graph).find(found), std::string::npos) << refusal(graph);
  }
}

TEST(ExportModel, OutputsMayBeInputsConstantsAndEachOther) {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::f32, {Dim::symbol("n")}});
  const ValueId c = graph.add_constant("c", Tensor::of<float>(DType::f32, {2}, {1, 2}));
  const ValueId y = graph.add(ops::Pointwise{F::neg}, {x}, "y");
  graph.add_output("x", x);
  graph.add_output("also x", x);
  graph.add_output("c", c);
  graph.add_output("y", y);
  graph.add_output("y again", y);
  expect_same(graph, {Tensor::of<float>(DType::f32, {3}, {1, 2, 3})});
  const ModelProto model = export_model(graph);
  EXPECT_EQ(model.graph.inputs[0].type.shape->at(0).param, "n");
  EXPECT_EQ(model.graph.outputs[3].type.shape->at(0).param, "n");
}

TEST(ExportModel, TheOperatorSetIsTheFirstThatHasAll) {
  const auto opset = [](const std::string& nodes) {
    return export_model(graph_of("graph (%x: f32[2, 4]) {\n%y = " + nodes + " (%x)\nreturn %y\n}")).opsets.at("");
  };
  EXPECT_EQ(opset("softmax {axis=1}"), 21);
  EXPECT_EQ(opset("layer_norm {axis=1, root_mean_square=true}"), 23);
  EXPECT_EQ(opset("cast {to=bf16}"), 22);
  EXPECT_EQ(opset("cast {to=f8e8m0}"), 24);
  EXPECT_EQ(opset("cast {to=i2}"), 25);
  EXPECT_EQ(opset("bit_cast {to=i32}"), 26);
}

TEST(ExportModel, ActivationsAreOneOperator) {
  const auto written = [](const std::string& statements) {
    return operators_of(export_model(graph_of("graph (%x: f32[n, 4]) {\n" + statements + "\nreturn %y\n}")));
  };
  using Types = std::vector<std::string>;
  EXPECT_EQ(written("const %z: f32[] = 0\n%y = pointwise {function=max} (%x, %z)"), Types{"Relu"});
  EXPECT_EQ(written("const %z: f32[] = 0\nconst %s: f32[] = 6\n%m = pointwise {function=max} (%x, %z)\n"
                    "%y = pointwise {function=min} (%m, %s)"),
            Types{"Clip"});
  EXPECT_EQ(written("const %z: f32[] = 0\nconst %s: f32[] = 0.25\n%c = pointwise {function=less} (%x, %z)\n"
                    "%m = pointwise {function=mul} (%x, %s)\n%y = pointwise {function=select} (%c, %m, %x)"),
            Types{"LeakyRelu"});
  // What is read elsewhere, too, stays a node.
  EXPECT_EQ(written("const %z: f32[] = 0\nconst %s: f32[] = 6\n%m = pointwise {function=max} (%x, %z)\n"
                    "%n = pointwise {function=min} (%m, %s)\n%y = pointwise {function=add} (%m, %n)"),
            (Types{"Relu", "Min", "Add"}));
}

// x / sqrt(max(mean square, epsilon)) · scale: where that is a length, it is written as one.
TEST(ExportModel, ClampedNormsAreDivisionsByALength) {
  using Types = std::vector<std::string>;
  const auto graph = [](const std::string& type, const std::string& scale) {
    return graph_of("graph (%x: " + type + "[n, 4]) {\nconst %s: " + type + "[4] = " + scale +
                    "\n%y = layer_norm {axis=1, epsilon=0.25, root_mean_square=true, clamped=true} (%x, %s)\n"
                    "return %y\n}");
  };
  const Types plain{"Mul", "ReduceMean", "Max", "Sqrt", "Div", "Mul"};
  const Tensor x = Tensor::of<float>(DType::f32, {3, 4}, {3, -4, 0, 12, 0.1F, 0.2F, 0, 0, 0, 0, 0, 0});
  const std::pair<const char*, Types> forms[] = {
      {"0.5", {"ReduceL2", "Max", "Div"}}, {"3", {"ReduceL2", "Max", "Div", "Mul"}}, {"[0.5, 0.5, 0.5, 1]", plain}};
  for (const auto& [scale, types] : forms) {
    SCOPED_TRACE(scale);
    EXPECT_EQ(operators_of(export_model(graph("f32", scale))), types);
    const Graph copy = read_back(export_model(graph("f32", scale)));
    const Tensor expected = results(graph("f32", scale), {x})[0], actual = results(copy, {x})[0];
    for (size_t i = 0; i < 12; ++i) EXPECT_NEAR(actual.to_doubles()[i], expected.to_doubles()[i], 1e-6) << i;
  }
  EXPECT_EQ(operators_of(export_model(graph("f64", "0.5"))), (Types{"ReduceL2", "Max", "Div"}));
  EXPECT_EQ(operators_of(export_model(graph("f16", "0.5"))),  // in f32
            (Types{"Cast", "Mul", "ReduceMean", "Max", "Sqrt", "Div", "Cast", "Mul", "Cast"}));
}

TEST(ExportModel, BranchesShareLargeConstantsOfTheModel) {
  const std::string body =
      "graph (%a: f32[512]) {\nconst %w: f32[512] = 2\n%t = pointwise {function=mul} (%a, %w)\nreturn %t\n}";
  Graph graph =
      graph_of("graph (%c: bool[], %x: f32[512]) {\n%y = if {} (%c, %x)\n" + body + "\n" + body + "\nreturn %y\n}");
  Graph& other = graph.nodes[0].bodies[1];
  for (size_t i = 0; i < other.values.size(); ++i)
    if (other.values[i].constant) other.values[i].constant = graph.nodes[0].bodies[0].values[i].constant;
  const ModelProto model = export_model(graph);
  EXPECT_EQ(model.graph.initializers.size(), 1u);
  for (const AttributeProto& branch : model.graph.nodes[0].attributes) {
    EXPECT_TRUE(branch.graphs[0].initializers.empty());
    EXPECT_TRUE(branch.graphs[0].inputs.empty());
  }
  expect_same(graph, {Tensor::scalar(DType::boolean, 1), Tensor(DType::f32, {512})});
}

TEST(ExportModel, AFailedCheckFailsInONNXToo) {
  const Graph graph = graph_of(
      "graph (%c: bool[], %x: f32[n]) {\n%y = check {wanted=false, message=\"it must not\"} (%c, %x)\nreturn %y\n}");
  const Tensor x = Tensor::of<float>(DType::f32, {3}, {1, -0.F, 3});
  expect_same(graph, {Tensor::scalar(DType::boolean, 0), x});
  EXPECT_THROW(results(read_back(export_model(graph)), {Tensor::scalar(DType::boolean, 1), x}), Error);
}

// ONNX has seeds of f32, Dropout has integers, and nodes without one draw numbers of their own.
TEST(ExportModel, RandomOperatorsDrawTheSameNumbers) {
  const Tensor x = Tensor::of<float>(DType::f32, {40}, std::vector<float>(40, 0.5F));
  const auto read = [&](const std::string& op, const std::vector<AttributeWriter>& seed) {
    GraphWriter graph;
    graph.input("x", DType::f32, {40}).output("y", op == "Multinomial" ? DType::i32 : DType::f32);
    graph.initializer(TensorWriter("ratio", {}, std::vector<float>{0.5F}));
    graph.initializer(TensorWriter("rows", {2}, std::vector<int64_t>{1, 40}));
    graph.initializer(TensorWriter("train", {}, DType::boolean, std::string(1, 1)));
    if (op == "Dropout") {
      graph.node(op, {"x", "ratio", "train"}, {"y"}, seed);
    } else if (op == "Multinomial") {
      std::vector<AttributeWriter> all{attr("sample_size", 30)};
      all.insert(all.end(), seed.begin(), seed.end());
      graph.node("Reshape", {"x", "rows"}, {"row"}).node(op, {"row"}, {"y"}, all);
    } else {
      graph.node(op, {"x"}, {"y"}, seed);
    }
    const auto bytes = std::make_shared<const std::string>(ModelWriter().opset(22).graph(graph).bytes());
    return import_model(read_model(std::as_bytes(std::span(*bytes)), "random.onnx", bytes)).graph;
  };
  for (const std::string op : {"RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial", "Dropout"}) {
    SCOPED_TRACE(op);
    expect_same(read(op, {}), {x});
    if (op == "Dropout") {
      std::vector<Tensor> drawn;
      for (const int64_t seed : {int64_t{0}, int64_t{7}, int64_t{-7}, int64_t{1} << 24, (int64_t{1} << 24) + 1,
                                 std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::lowest()}) {
        const Graph graph = read(op, {attr("seed", seed)});
        expect_same(graph, {x});
        drawn.push_back(results(graph, {x})[0]);
        EXPECT_EQ(std::count(drawn.begin(), drawn.end(), drawn.back()), 1) << seed;
      }
    } else {
      for (const float seed : {0.0F, 0.5F, -7.0F, 123456789.0F, 1e30F, INFINITY, NAN, 1e-45F})
        expect_same(read(op, {attr("seed", seed)}), {x});
    }
  }
}

TEST(ExportModel, ModelsSayWhoWroteThem) {
  const Graph graph =
      graph_of("graph (%x: f32[n]) {\n%y = pointwise {function=neg} (%x) from \"the node\"\nreturn %y\n}");
  const ModelProto model = export_model(graph, {.producer_version = "1.2", .metadata = {{"key", "text"}}});
  EXPECT_EQ(model.producer_name, "camshaft");
  EXPECT_EQ(model.producer_version, "1.2");
  EXPECT_EQ(model.metadata.at("key"), "text");
  EXPECT_EQ(model.ir_version, 10);
  EXPECT_EQ(model.graph.nodes[0].name, "the node");
}

TEST(ExportModel, DataLiesBesideTheModelWhereItIsAsked) {
  const TemporaryFolder folder;
  const Graph graph = graph_of(
      "graph (%x: f32[n, 64]) {\nconst %w: f32[64] = 0.5\nconst %b: f32[1] = 3\n"
      "%m = pointwise {function=mul} (%x, %w)\n%y = pointwise {function=add} (%m, %b)\nreturn %y\n}");
  const std::filesystem::path file = folder.file("m.onnx");
  const uint64_t bytes = write_model(export_model(graph), file, {.external_from = 100});
  EXPECT_EQ(std::filesystem::file_size(folder.file("m.onnx.data")), 256u);
  EXPECT_EQ(bytes, 256u + std::filesystem::file_size(file));
  const Graph copy = import_model(file).graph;
  const Tensor x = Tensor::of<float>(DType::f32, {1, 64}, std::vector<float>(64, 2));
  EXPECT_TRUE(results(copy, {x})[0] == results(graph, {x})[0]);
  EXPECT_THROW(write_model(export_model(graph), folder.file("none/m.onnx")), Error);
}

TEST(ExportModel, TheDocumentationListsWhatIsNotExported) {
  std::ifstream file(CAMSHAFT_SOURCE_FOLDER "/docs/limits.md");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  for (const std::string& name : not_exported) EXPECT_NE(text.find("`" + name + "`"), std::string::npos) << name;
}

}  // namespace
}  // namespace camshaft::onnx::export_model_test
