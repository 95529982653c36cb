// Engines that are saved and loaded, here and as if on another machine.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "backends/cpu/each_target.h"
#include "backends/cpu/kernels/gemm/matrix_unit.h"
#include "base/temporary_folder.h"
#include "engine/container.h"
#include "engine/engine_file.h"
#include "reference/random_tensor.h"
#include "runtime/engine_impl.h"
#include "runtime/support.h"

namespace camshaft::reload_test {
namespace {

constexpr std::string_view model = R"(graph "weights" (%x: f32[n, 6, 5, 8]) {
  const %w1: f32[8, 1, 3, 3] = 0.1
  const %w2: f32[16, 4, 3, 3] = 0.2
  const %w3: f32[16, 4, 2, 2] = 0.3
  const %m: f32[40, 6] = 0.5
  const %t: f32[7, 6] = 0.5
  const %we: f32[20, 8, 1, 1] = 0.1
  const %wd: f32[20, 1, 3, 3] = 0.2
  const %wp: f32[4, 20, 1, 1] = 0.3
  %d = conv {strides=[1, 1], pads=shape(1, 1, 1, 1), dilations=[1, 1], groups=8, channels_last=true} (%x, %w1)
  %c = conv {strides=[1, 1], pads=shape(1, 1, 1, 1), dilations=[1, 1], groups=2, channels_last=true} (%d, %w2)
  %u = conv_transpose {strides=[2, 1], pads=shape(0, 0, 0, 0), dilations=[1, 1], output_padding=shape(0, 0), channels_last=true} (%c, %w3)
  %p = pool {kind=max, kernel=[1, 1], strides=[1, 1], pads=shape(0, 0, 0, -1), dilations=[1, 1], channels_last=true} (%u)
  %f = transpose {permutation=[0, 1, 2, 3]} (%d)
  %r = reshape {shape=shape(6*n, 40)} (%f)
  %chain = region {kind=chain} (%x, %we, %wd, %wp)
  graph (%a: f32[n, 6, 5, 8], %e: f32[20, 8, 1, 1], %d: f32[20, 1, 3, 3], %p: f32[4, 20, 1, 1]) {
    %wide = conv {strides=[1, 1], pads=shape(0, 0, 0, 0), dilations=[1, 1], channels_last=true} (%a, %e)
    %deep = conv {strides=[2, 1], pads=shape(1, 1, 1, 1), dilations=[1, 1], groups=20, channels_last=true} (%wide, %d)
    %narrow = conv {strides=[1, 1], pads=shape(0, 0, 0, 0), dilations=[1, 1], channels_last=true} (%deep, %p)
    return %narrow
  }
  %a = matmul (%r, %m)
  %y = matmul {transpose_b=true} (%a, %t)
  return "u" = %u, "y" = %y, "chain" = %chain
})";

// The model with random weights, so that a mistake in their order is seen.
Graph random_model(Random& random) {
  std::string text(model);
  const size_t at = text.find("  %p = ");
  text.erase(at, text.find('\n', at) + 1 - at);
  Graph g = parse_graph(text, operators());
  for (Value& v : g.values)
    if (v.constant) v.constant = std::make_shared<const Tensor>(random_tensor(random, DType::f32, v.constant->dims()));
  return g;
}

class Reload : public ::testing::Test {
 protected:
  Reload()
      : random_(test_random()),
        graph_(random_model(random_)),
        engine_(compile_graph(graph_, find_backend("cpu"))),
        inputs_{random_tensor(random_, DType::f32, {2, 6, 5, 8})},
        expected_(run_engine(engine_, inputs_)) {
    engine_.save(folder_.file("e.engine"));
  }
  void expect_same_results(const std::string& path) {
    const std::vector<Tensor> actual = run_engine(Engine::load(path), inputs_);
    for (size_t o = 0; o < expected_.size(); ++o) EXPECT_EQ(actual[o], expected_[o]) << o;
  }

  Random random_;
  TemporaryFolder folder_;
  Graph graph_;
  Engine engine_;
  std::vector<Tensor> inputs_, expected_;
};

TEST_F(Reload, SameMachine) {
  expect_same_results(folder_.file("e.engine"));
  const EngineFile file = read_engine_file(folder_.file("e.engine"));
  int elided = 0;
  for (const Value& v : file.graph.values) elided += v.constant && v.constant->is_elided() ? 1 : 0;
  EXPECT_EQ(elided, 8) << "each weight is stored once, in its packed form";
  EXPECT_EQ(file.packed->all().size(), 8u);
  // A loaded engine can be saved again.
  Engine::load(folder_.file("e.engine")).save(folder_.file("f.engine"));
  expect_same_results(folder_.file("f.engine"));
}

TEST_F(Reload, WeightsAreRecoveredExactly) {
  // What a machine whose kernels want other panels does: it recovers the weights, which must be exact, and packs anew.
  EngineFile file = read_engine_file(folder_.file("e.engine"));
  const auto backend = find_backend("cpu");
  file.packed->set_unpack(
      [&](const PackedConstant& p, DType d, const Dims& dims) { return backend->unpack(p, d, dims); });
  auto raw = std::make_shared<PackedConstants>();
  for (Value& v : file.graph.values)
    if (v.constant && v.constant->is_elided())
      v.constant = std::make_shared<const Tensor>(file.packed->unpack(v.name, *v.constant));
  for (size_t v = 0; v < graph_.values.size(); ++v)
    if (graph_.values[v].constant) {
      EXPECT_EQ(*file.graph.values[v].constant, *graph_.values[v].constant);
    }
  file.packed = raw;
  write_engine_file(folder_.file("raw.engine"), file);
  expect_same_results(folder_.file("raw.engine"));
}

// The second profile's sizes run through the reference, which needs the weights that are there in packed form alone.
TEST_F(Reload, TacticsOfProfiles) {
  EngineFile file = read_engine_file(folder_.file("e.engine"));
  Profile small, large;
  for (const ValueId id : file.graph.inputs) {
    Dims one, many;
    for (const Dim& d : file.graph.shape(id)) {
      one.push_back(d.as_constant().value_or(1));
      many.push_back(d.as_constant().value_or(64));
    }
    const std::string& name = file.graph.value(id).name;
    small.inputs[name] = {one, one, many};
    large.inputs[name] = {one, many, many};
  }
  for (const bool reference_is_first : {false, true}) {
    EngineFile changed = file;
    changed.profiles = {reference_is_first ? large : small, reference_is_first ? small : large};
    for (TacticChoice& tactic : changed.tactics)
      if (!tactic.first.empty()) {
        tactic.further = {"reference"};
        if (reference_is_first) std::swap(tactic.first, tactic.further[0]);
      }
    write_engine_file(folder_.file("p.engine"), changed);
    const Engine engine = Engine::load(folder_.file("p.engine"));
    const std::vector<Tensor> actual = run_engine(engine, inputs_);
    for (size_t o = 0; o < expected_.size(); ++o) {
      const auto a = actual[o].to_doubles(), e = expected_[o].to_doubles();
      ASSERT_EQ(a.size(), e.size());
      for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], e[i], 1e-3);
    }
    engine.save(folder_.file("q.engine"));
    EXPECT_EQ(read_engine_file(folder_.file("q.engine")).tactics, read_engine_file(folder_.file("p.engine")).tactics);
  }
}

TEST_F(Reload, TacticsOfAnotherMachine) {
  EngineFile file = read_engine_file(folder_.file("e.engine"));
  for (TacticChoice& tactic : file.tactics)
    if (!tactic.first.empty()) tactic.first = "amx_" + tactic.first;
  write_engine_file(folder_.file("f.engine"), file);
  expect_same_results(folder_.file("f.engine"));
  // All through the reference: the elided weights are recovered for it.
  for (TacticChoice& tactic : file.tactics)
    if (!tactic.first.empty()) tactic.first = "reference";
  write_engine_file(folder_.file("r.engine"), file);
  const std::vector<Tensor> actual = run_engine(Engine::load(folder_.file("r.engine")), inputs_);
  for (size_t o = 0; o < expected_.size(); ++o) {
    const auto a = actual[o].to_doubles(), e = expected_[o].to_doubles();
    for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], e[i], 1e-3);
  }
}

TEST_F(Reload, ConstantsThatTacticsLookAtAreMissing) {
  const Graph graph = parse_graph(R"(graph "g" (%x: f32[2, 3]) {
    const %axis: i32[] = 1
    %y = cumulative {kind=sum} (%x, %axis)
    return "y" = %y
  })",
                                  operators());
  compile_graph(graph, find_backend("cpu")).save(folder_.file("c.engine"));
  EngineFile file = read_engine_file(folder_.file("c.engine"));
  for (Value& v : file.graph.values)
    if (v.constant) v.constant = std::make_shared<const Tensor>(Tensor::elided(DType::i32, {}));
  write_engine_file(folder_.file("f.engine"), file);
  try {
    Engine::load(folder_.file("f.engine"));
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::corrupt_engine) << e.what();
  }
}

TEST_F(Reload, LayoutsThatDoNotFit) {
  for (const std::string layout :
       {"unheard of", "gemm k=1 n=240 width=16 lanes=16 transposed=0", "gemm k=-40 n=-6 width=16 lanes=16 transposed=0",
        "gemm k=4611686018427387904 n=4 width=16 lanes=16 transposed=0",
        "conv o=0 c=0 h=0 w=0 groups=1 width=16 lanes=16", "depthwise16 o=9223372036854775807 h=3 w=3",
        "grouped_conv o=9223372036854775807 c=1 lines=3 w=3 groups=1 lanes=16",
        "grouped_conv o=0 c=0 lines=1 w=1 groups=1 lanes=0",
        "conv_transpose c=16 o=4 h=2 w=2 stride=1000x1000 dilation=9223372036854775807x1 groups=1 width=4096 "
        "lanes=1"}) {
    EngineFile file = read_engine_file(folder_.file("e.engine"));
    auto packed = std::make_shared<PackedConstants>();
    for (const PackedConstant* p : file.packed->all()) packed->add({p->constant, layout, p->bytes, p->owner});
    file.packed = packed;
    write_engine_file(folder_.file("f.engine"), file);
    try {
      Engine::load(folder_.file("f.engine"));
      FAIL() << layout;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::corrupt_engine) << e.what();
    }
  }
}

// Weights that products may round to bf16 are stored so; a machine without such products gets them back rounded.
TEST(ReloadRounded, MovesToMachinesThatMultiplyF32Alone) {
  if (!find_backend("cpu")->gains_from_rounding(ops::Rounding::bf16)) GTEST_SKIP() << "this machine has no AVX512_BF16";
  Random random = test_random();
  Graph graph = parse_graph(R"(graph "g" (%x: f32[64, 256]) {
      const %w: f32[256, 512] = 1
      %y = matmul {rounding=bf16} (%x, %w)
      return "y" = %y
    })",
                            operators());
  for (Value& v : graph.values)
    if (v.constant) v.constant = std::make_shared<const Tensor>(random_tensor(random, DType::f32, v.constant->dims()));
  const std::vector<Tensor> inputs{random_tensor(random, DType::f32, {64, 256})};
  const TemporaryFolder folder;
  const Engine engine = compile_graph(graph, find_backend("cpu"));
  engine.save(folder.file("e.engine"));
  EngineFile file = read_engine_file(folder.file("e.engine"));
  ASSERT_EQ(file.tactics.size(), 1U);
  EXPECT_EQ(file.tactics[0].first, "gemm_bf16");
  ASSERT_EQ(file.packed->all().size(), 1U);
  EXPECT_EQ(file.packed->all()[0]->bytes.size(), 256U * 512 * 2) << "half as much as of f32";
  const Tensor expected = run_engine(engine, inputs)[0];
  EXPECT_EQ(run_engine(Engine::load(folder.file("e.engine")), inputs)[0], expected);
  file.tactics[0].first = "gemm";
  write_engine_file(folder.file("f.engine"), file);
  const Tensor exact = run_engine(Engine::load(folder.file("f.engine")), inputs)[0];
  const auto a = exact.to_doubles(), e = expected.to_doubles();
  double largest = 0, difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(e[i]));
    difference = std::max(difference, std::abs(a[i] - e[i]));
  }
  EXPECT_GT(difference, 0);  // its x is not rounded
  EXPECT_LT(difference, 0x1p-8 * largest);
}

// So are rows that a layer has stored as bf16: they are widened where nothing multiplies them as they are.
TEST(ReloadRounded, StoredRowsMoveToMachinesThatMultiplyF32Alone) {
  Random random = test_random();
  Graph graph = parse_graph(R"(graph "g" (%x: f32[1, 6, 7, 32]) {
      const %w: f32[64, 32, 3, 3] = 1
      const %m: f32[64, 40] = 1
      %a = region {kind=contract} (%x, %w)
        graph (%i: f32[1, 6, 7, 32], %v: f32[64, 32, 3, 3]) {
          %c = conv {strides=[1, 1], pads=shape(1, 1, 1, 1), dilations=[1, 1], channels_last=true, rounding=bf16} (%i, %v)
          %s = cast {to=bf16} (%c)
          return %s
        }
      %y = matmul {rounding=bf16} (%a, %m)
      return "y" = %y
    })",
                            operators());
  for (Value& v : graph.values)
    if (v.constant) v.constant = std::make_shared<const Tensor>(random_tensor(random, DType::f32, v.constant->dims()));
  const std::vector<Tensor> inputs{random_tensor(random, DType::f32, {1, 6, 7, 32})};
  const TemporaryFolder folder;
  cpu::set_matrix_unit_for_test(cpu::MatrixUnit::portable);
  const Engine engine = compile_graph(graph, find_backend("cpu"));
  const std::vector<double> expected = run_engine(engine, inputs)[0].to_doubles();
  engine.save(folder.file("e.engine"));
  for (const auto& [name, tactic] : read_engine_file(folder.file("e.engine")).tactics)
    EXPECT_TRUE(name == "conv_bf16" || name == "gemm_bf16") << name;
  cpu::set_matrix_unit_for_test(cpu::MatrixUnit::none);
  const double largest = std::abs(*std::max_element(expected.begin(), expected.end(),
                                                    [](double a, double b) { return std::abs(a) < std::abs(b); }));
  cpu::for_each_target([&] {
    const std::vector<double> given = run_engine(Engine::load(folder.file("e.engine")), inputs)[0].to_doubles();
    ASSERT_EQ(given.size(), expected.size());
    for (size_t i = 0; i < given.size(); ++i) EXPECT_NEAR(given[i], expected[i], 0x1p-7 * largest) << i;
  });
  cpu::reset_matrix_unit_for_test();
}

TEST_F(Reload, PackedConstantsAreMissing) {
  EngineFile file = read_engine_file(folder_.file("e.engine"));
  file.packed = std::make_shared<PackedConstants>();
  write_engine_file(folder_.file("f.engine"), file);
  try {
    Engine::load(folder_.file("f.engine"));
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::corrupt_engine);
    EXPECT_NE(std::string(e.what()).find("the weights of constant"), std::string::npos) << e.what();
  }
}

// Weights whose transform does not give them back are in the file once more, and are not read unless they are needed.
class FallbackWeights : public ::testing::Test {
 protected:
  FallbackWeights() : random_(test_random()) {
    Graph graph = parse_graph(R"(graph "winograd" (%x: f32[1, 9, 8, 24]) {
      const %w: f32[32, 24, 3, 3] = 0.1
      %y = conv {strides=[1, 1], pads=shape(1, 1, 1, 1), dilations=[1, 1], groups=1, channels_last=true} (%x, %w)
      return "y" = %y
    })",
                              operators());
    for (Value& v : graph.values)
      if (v.constant)
        weights_ = random_tensor(random_, DType::f32, v.constant->dims()),
        v.constant = std::make_shared<const Tensor>(weights_);
    inputs_ = {random_tensor(random_, DType::f32, {1, 9, 8, 24})};
    expected_ = run_engine(compile_graph(graph, find_backend("cpu")), inputs_)[0].to_doubles();
    EngineFile file;
    file.device_kind = "cpu";
    file.graph = std::move(graph);
    file.tactics = {{"winograd(tile=2)", {}}};
    file.packed = std::make_shared<PackedConstants>();
    write_engine_file(folder_.file("plain.engine"), file);
    Engine::load(folder_.file("plain.engine")).save(path());
  }
  std::string path() const { return folder_.file("w.engine"); }
  void expect_results(const Engine& engine) const {
    const std::vector<double> actual = run_engine(engine, inputs_)[0].to_doubles();
    for (size_t i = 0; i < actual.size(); ++i) ASSERT_NEAR(actual[i], expected_[i], 1e-3);
  }
  std::string bytes() const {
    std::ifstream in(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  Random random_;
  TemporaryFolder folder_;
  Tensor weights_;
  std::vector<Tensor> inputs_;
  std::vector<double> expected_;
};

TEST_F(FallbackWeights, ComeBackExactly) {
  const Engine engine = Engine::load(path());
  EXPECT_EQ(engine.layers()[0].tactic, "winograd(tile=2)");
  expect_results(engine);
  EngineFile file = read_engine_file(path());
  const Value& value = file.graph.value(file.graph.nodes[0].inputs[1]);
  ASSERT_TRUE(value.constant->is_elided());
  EXPECT_EQ(file.packed->unpack(value.name, *value.constant), weights_);
  // A second generation is the same bytes; another machine has another tactic.
  const std::string before = bytes();
  engine.save(path());
  EXPECT_EQ(bytes(), before);
  for (const char* tactic : {"conv", "reference", "winograd(tile=4)", "amx"}) {
    file.tactics = {{tactic, {}}};
    write_engine_file(folder_.file("other.engine"), file);
    expect_results(Engine::load(folder_.file("other.engine")));
  }
}

TEST_F(FallbackWeights, DamageIsNoticedWhenTheyAreNeeded) {
  const std::string good = bytes();
  const Container container = open_container(std::as_bytes(std::span(good)), "w.engine");
  const Container::Section& fallback = container.sections().back();
  ASSERT_EQ(fallback.bytes.size(), weights_.bytes());
  std::string bad = good;
  const size_t at =
      fallback.offset + static_cast<size_t>(random_.integer(0, static_cast<int64_t>(fallback.bytes.size()) - 1));
  bad[at] = static_cast<char>(bad[at] ^ 0x20);
  std::ofstream(path(), std::ios::binary) << bad;
  const Engine engine = Engine::load(path());
  expect_results(engine);
  const auto expect_damage = [&](const auto& work) {
    try {
      work();
      ADD_FAILURE();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::corrupt_engine);
      EXPECT_NE(std::string(e.what()).find("section 'fallback' of the engine is damaged"), std::string::npos)
          << e.what();
    }
  };
  expect_damage([&] { engine.save(folder_.file("again.engine")); });
  EngineFile file = read_engine_file(path());
  const Value& value = file.graph.value(file.graph.nodes[0].inputs[1]);
  expect_damage([&] { file.packed->unpack(value.name, *value.constant); });
  expect_damage([&] { file.packed->unpack(value.name, *value.constant); });
}

}  // namespace
}  // namespace camshaft::reload_test
