// The engine file: what is written is read back, and bytes that were changed are refused or harmless.
#include "engine/engine_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/temporary_folder.h"
#include "engine/container.h"
#include "engine/graph_codec.h"
#include "ir/container_type.h"
#include "ir/limits.h"
#include "ir/ops/generate.h"
#include "ir/ops/move.h"
#include "ir/ops/operators.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"
#include "ir/ops/region.h"
#include "ir/ops/resize.h"
#include "ir/text.h"
#include "reference/random_tensor.h"
#include "test_random.h"

namespace camshaft::engine_file_test {
namespace {

// Fields of every type, a body, constants of every kind of storage, an omitted input, an input that is an output.
Graph sample_graph(Random& random) {
  Graph g;
  g.name = "sample";
  const Dim n = Dim::symbol("batch"), w = Dim::symbol("width of image");
  const ValueId x = g.add_input("x", {DType::f32, {n, 8, w, 6}});
  const ValueId names = g.add_constant("names", Tensor::of<std::string>(DType::string, {3}, {"a", "", "ü\n"}));
  const ValueId index = g.add_input("index", {DType::i64, {n}});
  const ValueId picked = g.add(ops::Gather{0}, {names, index}, "picked", {"/Gather"});
  const ValueId matrix = g.add_constant("matrix", random_tensor(random, DType::f32, {6, 40}));
  const ValueId nibbles = g.add_constant("nibbles", random_tensor(random, DType::u4, {5}));
  const ValueId nothing = g.add_constant("nothing", Tensor(DType::f32, {0, 3}));
  const ValueId resized = g.add(
      ops::Resize{.mode = ops::ResizeMode::cubic, .axes = {2, 3}, .sizes = {w * Dim(2), 12}, .scales = {2, 0.1 + 1.9}},
      {x}, "resized", {"/up/Resize", "second \"source\""});
  const ValueId padded = g.add(ops::Pad{ops::PadMode::reflect, {0, 0, n, 1, 0, 0, 0, -1}}, {resized}, "padded");
  const ValueId normal =
      g.add(ops::LayerNorm{3, 1e-6}, {x, no_value, g.add_constant("bias", Tensor(DType::f32, {6}))}, "normal");
  const ValueId dims = g.add(ops::DimsTensor{{n, floor_div(w, 2)}}, {}, "dims");
  Graph body;
  const ValueId a = body.add_input("a", g.type(normal));
  const ValueId b = body.add_input("b", g.type(matrix));
  const ValueId half = body.add_constant("half", Tensor::scalar(DType::f32, 0.5));
  const ValueId scaled = body.add(ops::Pointwise{ScalarFunction::mul}, {a, half}, "scaled");
  body.add_output("scaled", scaled);
  body.add_output("b", b);
  const auto region =
      g.add_node(ops::Region{ops::RegionKind::pointwise}, {normal, matrix}, {"region", "same"}, {"Mul_1"}, {body});
  g.add_output("region out", region[0]);
  g.add_output("padded", padded);
  g.add_output("picked", picked);
  g.add_output("x again", x);
  g.add_output("dims", dims);
  g.add_output("nibbles", nibbles);
  g.add_output("nothing", nothing);
  return g;
}

ValueId find(const Graph& graph, const std::string& name) {
  for (size_t v = 0; v < graph.values.size(); ++v)
    if (graph.values[v].name == name) return static_cast<ValueId>(v);
  ADD_FAILURE() << name;
  return 0;
}

// Expressions of every form, with parts in common, on constants of the graph and of a body.
void add_provenances(Graph& graph) {
  const auto tensor = [&](const char* name) { return graph.value(find(graph, name)).constant; };
  const auto set = [&](const char* name, Provenance::Pointer from) {
    graph.value(find(graph, name)).provenance = std::move(from);
  };
  const Constant matrix{tensor("matrix"), Provenance::initializer("the matrix", *tensor("matrix"))};
  const Constant bias{tensor("bias"), Provenance::initializer("the bias", *tensor("bias"))};
  const Constant words = literal(Tensor::of<std::string>(DType::string, {2}, {"a", ""}));
  const ops::Pad pad{ops::PadMode::reflect, {1, 2}};
  const Constant padded{bias.tensor, Provenance::transform(pad, {bias, Constant{}})};
  const Constant twice{bias.tensor, Provenance::transform(pad, {padded, literal(Tensor::scalar(DType::f32, 0.5))})};
  set("matrix", matrix.provenance);
  set("bias", Provenance::equal({twice, padded, literal(*bias.tensor)}));
  set("names", Provenance::transform(ops::Gather{0}, {words, matrix}, 2, 3));
  set("nibbles", Provenance::unknown("a number that was read off", {matrix, twice}));
  Graph& body = graph.nodes.back().bodies.at(0);
  const Constant again{bias.tensor, Provenance::initializer("the bias", *bias.tensor)};
  body.value(find(body, "half")).provenance = Provenance::transform(ops::Cast{.to = DType::f32}, {again});
}

EngineFile sample_engine(Random& random) {
  EngineFile file;
  file.device_kind = "cpu";
  file.graph = sample_graph(random);
  add_provenances(file.graph);
  file.tactics = {{"gather", {}},   {}, {"pad", {"", "reference"}}, {"layer_norm", {}}, {"reference", {}},
                  {"pointwise", {}}};
  file.packed = std::make_shared<PackedConstants>();
  const auto fill = [](const Tensor&, std::byte* out) { out[5] = std::byte{7}; };
  file.packed->get("matrix", "layout b=2", Tensor(DType::f32, {6, 40}), 1000, fill);
  file.packed->get("matrix", "layout a=1", Tensor(DType::f32, {6, 40}), 64, fill);
  file.packed->get("bias", "empty", Tensor(DType::f32, {6}), 0, [](const Tensor&, std::byte*) {});
  file.profiles = {{{{"x", {{1, 8, 1, 6}, {2, 8, 32, 6}, {4, 8, 64, 6}}}}}, {}};
  file.optimum = {{"batch", 2}, {"width of image", 32}};
  file.metadata = {{"model", "a \"name\""}, {"", "empty key"}, {"empty value", ""}};
  file.explanations.resize(file.graph.nodes.size());
  file.explanations[1] = {{{"conv", 100, 90, false}, {"winograd(tile=4)", 50, -1, true}}, {"it is read twice"}};
  file.keep.assign(file.graph.values.size(), Keep::bytes);
  return file;
}

void expect_same_provenances(const Graph& a, const Graph& b) {
  ASSERT_EQ(a.values.size(), b.values.size());
  for (size_t v = 0; v < a.values.size(); ++v) {
    const auto &x = a.values[v].provenance, &y = b.values[v].provenance;
    ASSERT_EQ(x == nullptr, y == nullptr) << a.values[v].name;
    if (x) {
      EXPECT_TRUE(same(*x, *y)) << a.values[v].name;
    }
  }
  for (size_t n = 0; n < a.nodes.size(); ++n)
    for (size_t i = 0; i < a.nodes[n].bodies.size(); ++i)
      expect_same_provenances(a.nodes[n].bodies[i], b.nodes[n].bodies[i]);
}

void expect_same(const EngineFile& a, const EngineFile& b) {
  expect_same_provenances(a.graph, b.graph);
  EXPECT_EQ(a.device_kind, b.device_kind);
  EXPECT_TRUE(equal(a.graph, b.graph));
  const PrintOptions all{.max_constant_elements = -1, .sources = true};
  EXPECT_EQ(print(a.graph, all), print(b.graph, all));
  EXPECT_EQ(a.tactics, b.tactics);
  EXPECT_EQ(a.optimum, b.optimum);
  EXPECT_EQ(a.metadata, b.metadata);
  EXPECT_EQ(a.explanations, b.explanations);
  ASSERT_EQ(a.profiles.size(), b.profiles.size());
  for (size_t i = 0; i < a.profiles.size(); ++i) {
    ASSERT_EQ(a.profiles[i].inputs.size(), b.profiles[i].inputs.size());
    for (const auto& [name, range] : a.profiles[i].inputs) {
      const ShapeRange& other = b.profiles[i].inputs.at(name);
      EXPECT_EQ(range.min, other.min);
      EXPECT_EQ(range.opt, other.opt);
      EXPECT_EQ(range.max, other.max);
    }
  }
  const auto packed_a = a.packed->all(), packed_b = b.packed->all();
  ASSERT_EQ(packed_a.size(), packed_b.size());
  for (size_t i = 0; i < packed_a.size(); ++i) {
    EXPECT_EQ(packed_a[i]->constant, packed_b[i]->constant);
    EXPECT_EQ(packed_a[i]->layout, packed_b[i]->layout);
    EXPECT_TRUE(std::equal(packed_a[i]->bytes.begin(), packed_a[i]->bytes.end(), packed_b[i]->bytes.begin(),
                           packed_b[i]->bytes.end()));
  }
}

std::vector<char> read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_bytes(const std::string& path, const std::vector<char>& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

TEST(EngineFile, RoundTrip) {
  Random random = test_random();
  const TemporaryFolder folder;
  const EngineFile engine = sample_engine(random);
  write_engine_file(folder.file("e.engine"), engine);
  const EngineFile back = read_engine_file(folder.file("e.engine"));
  expect_same(engine, back);
  // A second generation is the same bytes: nothing is lost or reordered.
  write_engine_file(folder.file("f.engine"), back);
  EXPECT_EQ(read_bytes(folder.file("e.engine")), read_bytes(folder.file("f.engine")));
}

// What a container holds is more in memory than in the file, and each type is a table, of which there may be more than
// a million.
TEST(EngineFile, ManyContainers) {
  const TemporaryFolder folder;
  EngineFile engine;
  engine.device_kind = "cpu";
  engine.packed = std::make_shared<PackedConstants>();
  TensorType deep = any_tensor(DType::f32);
  for (int i = 0; i < most_nested_containers; ++i) deep = optional_of(deep);
  for (int i = 0; i < 120000; ++i) {
    const std::string name = "x" + std::to_string(i);
    const TensorType shallow = optional_of(sequence_of(any_tensor(DType::f32), unknown_dim()));
    engine.graph.add_output(name, engine.graph.add_input(name, i % 2 ? deep : shallow));
  }
  write_engine_file(folder.file("e.engine"), engine);
  EXPECT_TRUE(equal(read_engine_file(folder.file("e.engine")).graph, engine.graph));
  EXPECT_THROW(engine.graph.add_input("deeper", optional_of(deep)), Error);
}

// A zero has a sign, which FlatBuffers takes for the default.
TEST(EngineFile, MinusZero) {
  const TemporaryFolder folder;
  EngineFile engine;
  engine.device_kind = "cpu";
  engine.packed = std::make_shared<PackedConstants>();
  const ValueId x = engine.graph.add_input("x", {DType::f32, {2, 3}});
  engine.graph.add_output("y", engine.graph.add(ops::LayerNorm{1, -0.0}, {x}, "y"));
  engine.tactics.resize(1);
  engine.explanations.resize(1);
  write_engine_file(folder.file("e.engine"), engine);
  const EngineFile back = read_engine_file(folder.file("e.engine"));
  EXPECT_TRUE(std::signbit(back.graph.nodes[0].op.as<ops::LayerNorm>()->epsilon));
}

TEST(EngineFile, ElidedConstantsKeepTheirTypeOnly) {
  Random random = test_random();
  const TemporaryFolder folder;
  EngineFile engine = sample_engine(random);
  const ValueId matrix = find(engine.graph, "matrix");
  engine.keep[static_cast<size_t>(matrix)] = Keep::packed_only;
  write_engine_file(folder.file("e.engine"), engine);
  const EngineFile back = read_engine_file(folder.file("e.engine"));
  const Tensor& constant = *back.graph.value(matrix).constant;
  EXPECT_TRUE(constant.is_elided());
  EXPECT_EQ(constant.dims(), (Dims{6, 40}));
  EXPECT_EQ(back.packed->all().size(), 3u);
}

TEST(EngineFile, WeightsLieMappedAndAligned) {
  Random random = test_random();
  const TemporaryFolder folder;
  const EngineFile engine = sample_engine(random);
  write_engine_file(folder.file("e.engine"), engine);
  const std::vector<std::byte> bytes = engine_file_bytes(engine);
  std::vector<EngineFile> all;
  all.push_back(read_engine_file(folder.file("e.engine")));
  // Memory that the allocator aligns to 16 alone may lie at a multiple of 64 by chance, but not four times.
  for (int copy = 0; copy < 4; ++copy) all.push_back(read_engine_file(MappedFile::from_bytes(bytes)));
  for (const EngineFile& back : all) {
    const Tensor& matrix = *back.graph.value(find(back.graph, "matrix")).constant;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(matrix.data()) % 64, 0u);
    EXPECT_EQ(matrix.owner(), back.storage) << "the constant is a view of the file's bytes";
  }
}

TEST(EngineFile, EveryChangedByteIsNoticedOrHarmless) {
  Random random = test_random();
  const TemporaryFolder folder;
  const EngineFile engine = sample_engine(random);
  const std::string path = folder.file("e.engine");
  write_engine_file(path, engine);
  const std::vector<char> good = read_bytes(path);
  std::vector<size_t> places;
  for (size_t at = 0; at < good.size(); ++at)
    if (at < 256 || random.integer(0, 15) == 0) places.push_back(at);
  places.push_back(good.size() - 1);
  size_t refused = 0;
  for (const size_t at : places) {
    std::vector<char> bad = good;
    bad[at] = static_cast<char>(bad[at] ^ (1 << random.integer(0, 7)));
    write_bytes(folder.file("bad.engine"), bad);
    try {
      expect_same(read_engine_file(folder.file("bad.engine")), engine);
    } catch (const Error& e) {
      ASSERT_EQ(e.code(), ErrorCode::corrupt_engine) << "byte " << at << ": " << e.what();
      ++refused;
    }
  }
  EXPECT_EQ(refused, places.size()) << "every byte of a container is covered";
}

TEST(EngineFile, TruncatedAnywhere) {
  Random random = test_random();
  const TemporaryFolder folder;
  write_engine_file(folder.file("e.engine"), sample_engine(random));
  const std::vector<char> good = read_bytes(folder.file("e.engine"));
  for (size_t size = 1; size < good.size(); size += 1 + static_cast<size_t>(random.integer(0, 300))) {
    write_bytes(folder.file("bad.engine"), {good.begin(), good.begin() + static_cast<int64_t>(size)});
    try {
      read_engine_file(folder.file("bad.engine"));
      FAIL() << "loaded " << size << " bytes of " << good.size();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::corrupt_engine) << e.what();
    }
  }
}

// Behind the checksums: sections that a hostile writer has sealed properly.
TEST(EngineFile, MutatedGraphWithRightChecksums) {
  Random random = test_random();
  const TemporaryFolder folder;
  write_engine_file(folder.file("e.engine"), sample_engine(random));
  const std::vector<char> bytes = read_bytes(folder.file("e.engine"));
  const Container container = open_container(std::as_bytes(std::span(bytes)), "e.engine");
  const auto graph = container.section("graph"), weights = container.section("weights");
  int loaded = 0;
  const char* wanted = std::getenv("CAMSHAFT_TEST_ROUNDS");
  const int rounds = wanted ? std::atoi(wanted) : 1500;
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::byte> bad(graph.begin(), graph.end());
    for (int64_t changes = random.integer(1, 3); changes > 0; --changes) {
      const auto at = static_cast<size_t>(random.integer(0, static_cast<int64_t>(bad.size()) - 1));
      switch (random.integer(0, 2)) {
        case 0:
          bad[at] ^= static_cast<std::byte>(1 << random.integer(0, 7));
          break;
        case 1:
          bad[at] = static_cast<std::byte>(random.integer(0, 255));
          break;
        default:
          bad[at] = bad[static_cast<size_t>(random.integer(0, static_cast<int64_t>(bad.size()) - 1))];
      }
    }
    const SectionSource sections[] = {{"graph", bad}, {"weights", weights}};
    const std::vector<std::byte> sealed = container_bytes(sections);  // a plain file: thousands of syncs take long
    const auto* chars = reinterpret_cast<const char*>(sealed.data());
    write_bytes(folder.file("bad.engine"), {chars, chars + sealed.size()});
    try {
      read_engine_file(folder.file("bad.engine"));
      ++loaded;
    } catch (const Error& e) {
      ASSERT_TRUE(e.code() == ErrorCode::corrupt_engine || e.code() == ErrorCode::out_of_memory) << e.what();
    }
  }
  EXPECT_GT(loaded, 0) << "a changed name or number of the metadata is a valid engine";
}

EngineFile reload(const TemporaryFolder& folder, const flatbuffers::FlatBufferBuilder& b) {
  const SectionSource sections[] = {{"graph", std::as_bytes(std::span(b.GetBufferPointer(), b.GetSize()))},
                                    SectionSource("weights")};
  write_container(folder.file("made.engine"), sections);
  return read_engine_file(folder.file("made.engine"));
}

// A graph section made by hand around `values` and `nodes`.
void expect_refused(const std::function<flatbuffers::Offset<format::Graph>(flatbuffers::FlatBufferBuilder&)>& make,
                    const std::string& why) {
  const TemporaryFolder folder;
  flatbuffers::FlatBufferBuilder b;
  const auto graph = make(b);
  format::FinishEngineBuffer(b, format::CreateEngineDirect(b, "cpu", graph));
  try {
    reload(folder, b);
    FAIL() << "loaded; expected: " << why;
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::corrupt_engine);
    EXPECT_NE(std::string(e.what()).find(why), std::string::npos) << e.what();
  }
}

flatbuffers::Offset<format::Value> make_value(flatbuffers::FlatBufferBuilder& b, const char* name,
                                              std::vector<std::string> dims, uint8_t dtype = 1) {
  return format::CreateValue(b, b.CreateString(name), dtype, b.CreateVectorOfStrings(dims));
}

// Nothing finds the packed form of a constant within a body.
TEST(EngineFile, PackedConstantsOfBodiesAreRefused) {
  const TemporaryFolder folder;
  EngineFile engine;
  engine.device_kind = "cpu";
  engine.packed = std::make_shared<PackedConstants>();
  engine.graph = parse_graph(R"(graph "g" (%x: f32[2]) {
    %y = region {kind=pointwise} (%x)
    graph (%a: f32[2]) {
      const %c: f32[2] = [1, 2]
      %b = pointwise {function=add} (%a, %c)
      return %b
    }
    return "y" = %y
  })",
                             operators());
  write_engine_file(folder.file("good.engine"), engine);
  EXPECT_NO_THROW(read_engine_file(folder.file("good.engine")));
  for (Value& value : engine.graph.nodes[0].bodies[0].values)
    if (value.constant) value.constant = std::make_shared<const Tensor>(Tensor::elided(DType::f32, {2}));
  write_engine_file(folder.file("bad.engine"), engine);
  EXPECT_THROW(read_engine_file(folder.file("bad.engine")), Error);
}

TEST(EngineFile, HostileGraphs) {
  using Values = std::vector<flatbuffers::Offset<format::Value>>;
  const auto with = [](auto&& values, std::vector<int32_t> inputs, std::vector<int32_t> outputs,
                       std::vector<std::string> names) {
    return [=](flatbuffers::FlatBufferBuilder& b) {
      const Values list = values(b);
      const auto v = b.CreateVector(list);
      const auto i = b.CreateVector(inputs), o = b.CreateVector(outputs);
      const auto n = b.CreateVectorOfStrings(names);
      return format::CreateGraph(b, 0, v, 0, i, o, n);
    };
  };
  const auto one = [](std::vector<std::string> dims, uint8_t dtype = 1) {
    return [=](flatbuffers::FlatBufferBuilder& b) { return Values{make_value(b, "x", dims, dtype)}; };
  };
  expect_refused(with(one({"-3"}), {0}, {0}, {"y"}), "negative size");
  expect_refused(with(one(std::vector<std::string>(2000, "1")), {0}, {0}, {"y"}), "2000 axes");
  expect_refused(with(one({"0", "1099511627776", "1099511627776"}), {0}, {0}, {"y"}), "larger than any memory");
  expect_refused(with(one({"3"}, 200), {0}, {0}, {"y"}), "there is no dtype 200");
  expect_refused(with(one({"3"}), {1}, {0}, {"y"}), "there is no value 1");
  expect_refused(with(one({"3"}), {-1}, {0}, {"y"}), "there is no value -1");
  expect_refused(with(one({"3"}), {0, 0}, {0}, {"y"}), "defined twice");
  expect_refused(with(one({"3"}), {}, {0}, {"y"}), "read before it is computed");
  expect_refused(with(one({"3"}), {0}, {0}, {}), "differ in number");
  expect_refused(with(one({"3"}), {0}, {0, 0}, {"y", "y"}), "two outputs have one name");
  expect_refused(with(one({"3 +"}), {0}, {0}, {"y"}), "not a dimension expression");
  expect_refused(with(one({std::string(1000, '(')}), {0}, {0}, {"y"}), "nested too deep");
  expect_refused(with(
                     [](flatbuffers::FlatBufferBuilder& b) {
                       return Values{make_value(b, "x", {}), make_value(b, "x", {})};
                     },
                     {0, 1}, {0}, {"y"}),
                 "two values are named");
  // One long list of dims for many values: small in the file, large in memory.
  expect_refused(
      [](flatbuffers::FlatBufferBuilder& b) {
        const auto dims = b.CreateVectorOfStrings(std::vector<std::string>(200, "n"));
        Values list;
        for (int i = 0; i < 10000; ++i)
          list.push_back(format::CreateValue(b, b.CreateString("v" + std::to_string(i)), 1, dims));
        return format::CreateGraph(b, 0, b.CreateVector(list));
      },
      "over and over");
}

// Records of where constants come from, made by hand.
struct StoredProvenance {
  format::ProvenanceForm form = format::ProvenanceForm::initializer;
  std::vector<int32_t> operands = {};
  std::vector<int64_t> dims = {2};
  uint8_t dtype = static_cast<uint8_t>(DType::f32);
  uint32_t op = 0, result = 0, results = 1;
};

// An engine with one constant, which comes from record `entry`.
void load_with(const std::vector<StoredProvenance>& list, int32_t entry, bool is_constant = true) {
  const TemporaryFolder folder;
  flatbuffers::FlatBufferBuilder b;
  const auto dims = b.CreateVectorOfStrings(std::vector<std::string>{"2"});
  const auto name = b.CreateString("c");
  b.ForceVectorAlignment(8, 1, 16);
  const auto bytes = b.CreateVector(std::vector<uint8_t>(8));
  const auto storage = is_constant ? format::ConstantStorage::inlined : format::ConstantStorage::none;
  const auto value = format::CreateValue(b, name, static_cast<uint8_t>(DType::f32), dims, storage, 0, bytes, 0, entry);
  const auto graph = format::CreateGraph(
      b, 0, b.CreateVector(std::vector{value}), 0, b.CreateVector(std::vector<int32_t>(is_constant ? 0 : 1, 0)),
      b.CreateVector(std::vector<int32_t>{0}), b.CreateVectorOfStrings(std::vector<std::string>{"y"}));
  const auto reshape = format::CreateOperator(b, b.CreateString("concat"));
  const auto operators = b.CreateVector(std::vector{reshape});
  std::vector<flatbuffers::Offset<format::Provenance>> stored;
  for (const StoredProvenance& p : list) {
    const auto text = b.CreateString("w");
    const auto sizes = b.CreateVector(p.dims);
    const auto operands = b.CreateVector(p.operands);
    const auto elements = b.CreateVector(std::vector<uint8_t>(8));
    stored.push_back(
        format::CreateProvenance(b, p.form, text, p.dtype, sizes, elements, p.op, p.result, p.results, operands));
  }
  const auto provenances = b.CreateVector(stored);
  const auto kind = b.CreateString("cpu");
  format::FinishEngineBuffer(b, format::CreateEngine(b, kind, graph, 0, 0, 0, 0, 0, operators, provenances));
  reload(folder, b);
}

TEST(EngineFile, HostileProvenances) {
  using Form = format::ProvenanceForm;
  const auto refused = [](const std::vector<StoredProvenance>& list, int32_t entry, const std::string& why,
                          bool is_constant = true) {
    try {
      load_with(list, entry, is_constant);
      ADD_FAILURE() << "loaded; expected: " << why;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::corrupt_engine);
      EXPECT_NE(std::string(e.what()).find(why), std::string::npos) << e.what();
    }
  };
  const StoredProvenance w;
  EXPECT_NO_THROW(load_with({w}, 0));
  EXPECT_NO_THROW(load_with({w, {Form::transform, {0, -1}}}, 1));
  refused({w}, 1, "has no record 1");
  refused({w}, -2, "has no record -2");
  refused({w}, 0, "is no constant", false);
  refused({{.dims = {3}}}, 0, "an initializer of another type");
  refused({{.dims = {-2}}}, 0, "is recorded as");
  refused({{.dims = std::vector<int64_t>(2000, 1)}}, 0, "is recorded as");
  refused({{.dims = {0, int64_t{1} << 40, int64_t{1} << 40}}}, 0, "is recorded as");
  refused({{.dtype = 200}}, 0, "there is no dtype 200");
  refused({{.dtype = static_cast<uint8_t>(DType::sequence)}}, 0, "is recorded as");
  refused({w, {.operands = {0}}}, 0, "an initializer is made of others");
  refused({w, {Form::literal, {0}}}, 0, "a literal is made of others");
  refused({{Form::literal, {}, {3}}}, 0, "has the wrong size");
  refused({w, {Form::transform, {1}}}, 1, "refers to record 1");
  refused({w, {Form::transform, {-2}}}, 1, "refers to record -2");
  refused({w, {Form::equal, {-1}}}, 1, "refers to record -1");
  refused({{Form::equal}}, 0, "stands for none");
  refused({w, {.form = Form::transform, .operands = {0}, .op = 1}}, 1, "there is no operator 1");
  refused({w, {.form = Form::transform, .operands = {0}, .result = 1}}, 1, "no result 1 of 1");
  refused({w, {.form = Form::transform, .operands = {0}, .results = 1U << 31}}, 1, "no result 0 of 2147483648");
  refused({w, {static_cast<Form>(9)}}, 0, "in an unknown way");
  std::vector<StoredProvenance> deep(100000, w);
  for (size_t i = 1; i < deep.size(); ++i) deep[i] = {Form::transform, {static_cast<int32_t>(i) - 1}};
  refused(deep, 0, "nested too deep");
}

TEST(EngineFile, NotAFile) {
  const TemporaryFolder folder;
  try {
    read_engine_file(folder.file("absent.engine"));
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::io);
  }
  Random random = test_random();
  EXPECT_THROW(write_engine_file(folder.file("no/such/folder.engine"), sample_engine(random)), Error);
  EXPECT_EQ(folder.entries(), 0u);
}

}  // namespace
}  // namespace camshaft::engine_file_test
