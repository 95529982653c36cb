// Graphs become plans: where values live, for how long, and what runs.
#include "compile/lower.h"

#include <gtest/gtest.h>

#include "compile/fake_backend.h"
#include "ir/ops/operators.h"
#include "ir/text.h"

namespace camshaft::lower_test {
namespace {

LowerOptions with(std::vector<std::string> tactics, Cancellation cancellation = {}) {
  LowerOptions options;
  for (std::string& tactic : tactics) options.tactics.push_back({std::move(tactic), {}});
  options.cancellation = std::move(cancellation);
  return options;
}

struct Lowered {
  Graph graph;
  PackedConstants constants;
  Plan plan;

  explicit Lowered(const std::string& text, LowerOptions options = {}) : graph(parse_graph(text, operators())) {
    const FakeBackend backend;
    constants.set_unpack(
        [](const PackedConstant& p, DType d, const Dims& dims) { return FakeBackend().unpack(p, d, dims); });
    plan = lower(graph, backend, constants, options);
  }
  int32_t id(const std::string& name) const {
    for (size_t v = 0; v < plan.values.size(); ++v)
      if (plan.values[v].name == name) return static_cast<int32_t>(v);
    ADD_FAILURE() << name;
    return 0;
  }
  const PlanValue& value(const std::string& name) const { return plan.values[static_cast<size_t>(id(name))]; }
};

TEST(Lower, ReshapesAreAliases) {
  const Lowered l(R"(graph (%x: f32[n, 6]) {
    %a = pointwise {function=neg} (%x)
    %b = reshape {shape=shape(3*n, 2)} (%a)
    %c = reshape {shape=shape(6*n)} (%b)
    %d = pointwise {function=exp} (%c)
    %e = pointwise {function=exp} (%d)
    return %e
  })");
  EXPECT_EQ(l.plan.steps.size(), 3u);
  EXPECT_EQ(l.value("b").storage, Storage::alias);
  EXPECT_EQ(l.plan.root(l.id("c")), l.id("a"));
  EXPECT_EQ(l.value("a").storage, Storage::arena);
  EXPECT_EQ(l.value("a").first_step, 0);
  EXPECT_EQ(l.value("a").last_step, 1) << "read through its alias";
  EXPECT_EQ(l.plan.steps[1].inputs, std::vector<int32_t>{l.id("c")}) << "with the alias' shape";
  EXPECT_EQ(l.value("e").storage, Storage::output);
}

TEST(Lower, InPlace) {
  const Lowered l(R"(graph (%x: f32[n, 6], %one: f32[1, 6]) {
    %a = pointwise {function=neg} (%x)
    %b = pointwise {function=exp} (%a)
    %c = pointwise {function=add} (%b, %a)
    %d = pointwise {function=mul} (%c, %c)
    %e = pointwise {function=add} (%d, %one)
    %f = reshape {shape=shape(6*n)} (%e)
    %g = pointwise {function=exp} (%f)
    %h = pointwise {function=neg} (%g)
    return %h
  })");
  EXPECT_EQ(l.value("a").in_place_of, -1) << "an input is the caller's";
  EXPECT_EQ(l.value("b").in_place_of, -1) << "a lives on";
  EXPECT_EQ(l.value("c").in_place_of, l.id("b")) << "the first operand that dies here";
  EXPECT_EQ(l.value("d").in_place_of, -1) << "read twice by the same step";
  EXPECT_EQ(l.value("e").in_place_of, l.id("d"));
  EXPECT_EQ(l.value("g").in_place_of, l.id("e")) << "through the alias";
  EXPECT_EQ(l.value("h").in_place_of, -1) << "an output is the caller's";
  const Lowered slow(R"(graph (%x: f32[n]) {
    %a = pointwise {function=neg} (%x)
    %b = pointwise {function=exp} (%a)
    %c = pointwise {function=exp} (%b)
    return %c
  })",
                     with({"slow", "slow", "slow"}));
  EXPECT_EQ(slow.value("b").in_place_of, -1) << "the kernel cannot";
}

TEST(Lower, OutputsThatAreSomethingElseAreCopied) {
  const Lowered l(R"(graph (%x: f32[n, 6], %s: string[2]) {
    const %c: f32[2] = [1, 2]
    %a = pointwise {function=neg} (%x)
    %flat = reshape {shape=shape(6*n)} (%x)
    %b = reshape {shape=shape(6*n)} (%a)
    return "x" = %x, "c" = %c, "a" = %a, "again" = %a, "b" = %b, "flat" = %flat, "s" = %s
  })");
  EXPECT_EQ(l.plan.output_names, (std::vector<std::string>{"x", "c", "a", "again", "b", "flat", "s"}));
  ASSERT_EQ(l.plan.steps.size(), 7u);
  EXPECT_EQ(l.plan.steps[0].op, "pointwise");
  for (size_t s = 1; s < 7; ++s) {
    EXPECT_EQ(l.plan.steps[s].op, "copy");
    EXPECT_EQ(l.plan.steps[s].node, -1);
  }
  EXPECT_EQ(l.value("a").storage, Storage::output);
  EXPECT_EQ(l.value("a").index, 2);
  std::set<int32_t> different;
  for (size_t o = 0; o < l.plan.outputs.size(); ++o) {
    const PlanValue& out = l.plan.values[static_cast<size_t>(l.plan.outputs[o])];
    EXPECT_EQ(out.storage, o == 6 ? Storage::dynamic : Storage::output) << "strings own memory";
    if (o < 6) {
      EXPECT_EQ(out.index, static_cast<int32_t>(o));
    }
    different.insert(l.plan.root(l.plan.outputs[o]));
  }
  EXPECT_EQ(different.size(), 7u) << "no two outputs share memory";
}

TEST(Lower, SizesThatOnlyRunningCanTell) {
  const Lowered l(R"(graph (%x: f32[n], %end: i64[]) {
    const %zero: i64[] = 0
    const %one: i64[] = 1
    %r = range (%zero, %end, %one)
    %f = cast {to=f32} (%r)
    %s = reduce {axes=[0], keep_dims=false} (%f)
    %t = reduce {axes=[0], keep_dims=false} (%x)
    %u = pointwise {function=add} (%s, %t)
    return %u, "r" = %r
  })");
  EXPECT_EQ(l.value("r").storage, Storage::dynamic);
  EXPECT_EQ(l.value("f").storage, Storage::dynamic) << "as long as r";
  EXPECT_EQ(l.value("s").storage, Storage::arena);
  EXPECT_EQ(l.value("r").last_step, static_cast<int32_t>(l.plan.steps.size())) << "outputs outlive the run";
  EXPECT_EQ(l.value("f").last_step, 2);
}

TEST(Lower, TacticsOfAnEarlierBuild) {
  const std::string text = R"(graph (%x: f32[n, 2]) {
    const %w: f32[2, 2] = [1, 2, 3, 4]
    %a = matmul (%x, %w)
    %b = pointwise {function=neg} (%a)
    %c = pointwise {function=neg} (%b)
    return %c
  })";
  const Lowered l(text, with({"slow", "", "of another machine"}));
  EXPECT_EQ(l.plan.steps[0].tactic, "slow");
  EXPECT_EQ(l.plan.steps[1].tactic, "fast");
  EXPECT_EQ(l.plan.steps[2].tactic, "fast");
  EXPECT_TRUE(l.constants.all().empty()) << "slow kernels read the constant itself";
  EXPECT_EQ(Lowered(text).constants.all().size(), 1u);
  Cancellation cancellation;
  cancellation.cancel();
  EXPECT_THROW(Lowered(text, with({}, cancellation)), Error);
}

TEST(Lower, ElidedConstantsAreRecoveredForWhoReadsThem) {
  Graph graph = parse_graph(R"(graph (%x: f32[n, 2]) {
    const %w: f32[2, 2] = [1, 2, 3, 4]
    const %v: f32[2, 2] = [5, 6, 7, 8]
    const %u: f32[4] = [9, 10, 11, 12]
    %a = matmul (%x, %w)
    %b = matmul (%x, %v)
    %m = reshape {shape=shape(2, 2)} (%u)
    %c = matmul (%b, %m)
    return %a, %c, "w" = %w, "flat" = %u
  })",
                            operators());
  PackedConstants constants;
  constants.set_unpack(
      [](const PackedConstant& p, DType d, const Dims& dims) { return FakeBackend().unpack(p, d, dims); });
  std::map<std::string, Tensor> raw;
  for (Value& v : graph.values) {
    if (!v.constant) continue;
    raw[v.name] = *v.constant;
    constants.get(v.name, "fake", *v.constant, v.constant->bytes(),
                  [](const Tensor& t, std::byte* out) { std::copy(t.data(), t.data() + t.bytes(), out); });
    v.constant = std::make_shared<const Tensor>(Tensor::elided(v.type.dtype, v.constant->dims()));
  }
  const Plan plan = lower(graph, FakeBackend(), constants, with({"fast", "fast", "", "slow"}));
  for (const PlanValue& v : plan.values) {
    if (!v.constant) continue;
    if (v.name == "v") {
      EXPECT_TRUE(v.constant->is_elided()) << "nobody reads it but in packed form";
    } else {
      EXPECT_EQ(*v.constant, raw[v.name]) << v.name;
    }
  }
}

TEST(Lower, FailuresNameTheLayer) {
  Graph graph = parse_graph(R"(graph (%x: f32[n, 2]) {
    const %w: f32[2, 2] = [1, 2, 3, 4]
    %a = matmul (%x, %w) from "/encoder/MatMul_7"
    return %a
  })",
                            operators());
  graph.values[1].constant = std::make_shared<const Tensor>(Tensor::elided(DType::f32, {2, 2}));
  PackedConstants empty;
  try {
    lower(graph, FakeBackend(), empty, {});
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "layer 'a' (from node '/encoder/MatMul_7'): the weights of constant 'w' are missing");
  }
}

TEST(Lower, Description) {
  const Lowered l(R"(graph (%x: f32[n, 2]) {
    %r = region {kind=pointwise} (%x)
    graph (%a: f32[n, 2]) {
      %b = pointwise {function=neg} (%a)
      %c = pointwise {function=exp} (%b)
      return %c
    }
    return %r
  })");
  EXPECT_EQ(l.plan.steps[0].op, "pointwise");
  EXPECT_EQ(l.plan.steps[0].description, "pointwise {function=\"neg\"} → pointwise {function=\"exp\"}");
  EXPECT_EQ(to_string(l.plan), "r: f32[n, 2] = pointwise[fast](x: f32[n, 2])\n");
}

TEST(AssumeSizes, NamesThatAreExpressions) {
  Graph graph;
  const auto input = [&](const std::string& name, const std::vector<std::string>& sizes) {
    Shape shape;
    for (const std::string& size : sizes) shape.push_back(Dim::symbol(size));
    graph.add_input(name, {DType::f32, shape});
  };
  input("mask", {"batch", "past + seq"});
  input("past", {"batch", "past"});
  input("ids", {"batch", "seq"});
  input("other", {"batch", "past + unknown", "half-size", "2*seq"});
  const SymbolBindings sizes = assume_sizes(graph, {{"seq", 3}}, 10);
  EXPECT_EQ(sizes, (SymbolBindings{{"batch", 1},
                                   {"past", 10},
                                   {"seq", 3},
                                   {"past + seq", 13},
                                   {"past + unknown", 10},
                                   {"half-size", 10},
                                   {"2*seq", 6}}));
  EXPECT_EQ(assume_sizes(graph, {{"past + seq", 7}}, 10).at("past + seq"), 7) << "what is given stays";
}

}  // namespace
}  // namespace camshaft::lower_test
