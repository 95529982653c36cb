// Which steps depend on constants and sizes alone, and what of them a bound plan keeps.
#include "compile/plan/invariant_steps.h"

#include <gtest/gtest.h>

#include "compile/lower.h"
#include "compile/plan/bound_plan.h"
#include "ir/ops/operators.h"
#include "ir/text.h"
#include "runtime/backends.h"

namespace camshaft::invariant_steps_test {
namespace {

struct Lowered {
  Graph graph;
  PackedConstants constants;
  Plan plan;

  explicit Lowered(const std::string& text) : graph(parse_graph(text, operators())) {
    plan = lower(graph, *find_backend("cpu"), constants, {});
  }
  std::string invariant() const {
    std::string names;
    for (const PlanStep& step : plan.steps)
      if (step.is_invariant) names += (names.empty() ? "" : " ") + step.name;
    return names;
  }
  int32_t value(const std::string& name) const {
    for (size_t v = 0; v < plan.values.size(); ++v)
      if (plan.values[v].name == name) return static_cast<int32_t>(v);
    ADD_FAILURE() << name;
    return 0;
  }
  std::string hoisted(const BoundPlan& bound) const {
    std::string names;
    for (size_t s = 0; s < plan.steps.size(); ++s)
      if (bound.is_hoisted(s)) names += (names.empty() ? "" : " ") + plan.steps[s].name;
    return names;
  }
  std::string kept(const BoundPlan& bound) const {
    std::string names;
    for (size_t v = 0; v < plan.values.size(); ++v)
      if (bound.is_kept(static_cast<int32_t>(v))) names += (names.empty() ? "" : " ") + plan.values[v].name;
    return names;
  }
};

// %t is a table of n positions; %p has what x has a part in.
const std::string table = R"(
    const %zero: i64[] = 0
    const %one: i64[] = 1
    %count = dims {elements=shape(n), scalar=true} ()
    %r = range (%zero, %count, %one)
    %f = cast {to=f32} (%r)
    %t = softmax {axis=0} (%f)
)";

TEST(InvariantSteps, DependOnSizesAlone) {
  const Lowered l("graph (%x: f32[n]) {" + table + R"(
    %p = pointwise {function=mul} (%t, %x)
    %q = pointwise {function=neg} (%t)
    %y = pointwise {function=add} (%p, %q)
    return %y
  })");
  EXPECT_EQ(l.invariant(), "count r f t q");
  const BoundPlan bound(l.plan, {{"n", 5}}, 1);
  EXPECT_EQ(l.hoisted(bound), "count r f t q");
  EXPECT_EQ(l.kept(bound), "t q");
  EXPECT_EQ(bound.kept_bytes(DeviceId::host), 2 * 64) << "aligned";
}

// The caller's memory is written in each run.
TEST(InvariantSteps, OutputsAreWrittenInEachRun) {
  const Lowered l("graph (%x: f32[n]) {" + table + R"(
    %p = pointwise {function=mul} (%t, %x)
    return %p, %t
  })");
  EXPECT_EQ(l.invariant(), "count r f");
}

TEST(InvariantSteps, SizesThatOnlyRunningTellsAreNone) {
  const Lowered l(R"(graph (%x: f32[n], %limit: i64[]) {
    const %zero: i64[] = 0
    const %one: i64[] = 1
    %r = range (%zero, %limit, %one)
    const %w: f32[3] = [1, 0, 2]
    %nz = non_zero (%w)
    %d = pointwise {function=neg} (%nz)
    return %r, %d
  })");
  EXPECT_EQ(l.invariant(), "");
}

// A part of a concatenation with something else would have to be computed in each run.
TEST(InvariantSteps, AreNotComputedInPlaceInWhatChanges) {
  const Lowered l("graph (%x: f32[n]) {" + table + R"(
    %a = softmax {axis=0} (%x)
    %both = concat {axis=0} (%t, %a)
    %all = concat {axis=0} (%t, %f)
    %y = pointwise {function=exp} (%both)
    %z = pointwise {function=exp} (%all)
    %s = softmax {axis=0} (%z)
    %v = slice {axes=[0], starts=shape(1), counts=shape(n), steps=[1]} (%s)
    %w = pointwise {function=add} (%v, %a)
    return %y, %w
  })");
  EXPECT_EQ(l.plan.values[static_cast<size_t>(l.value("a"))].storage, Storage::slice);
  EXPECT_NE(l.plan.root(l.value("t")), l.plan.root(l.value("both")));
  EXPECT_EQ(l.invariant(), "count r f t all z s");
  const BoundPlan bound(l.plan, {{"n", 5}}, 1);
  EXPECT_EQ(l.plan.root(l.value("v")), l.value("s")) << "a view";
  EXPECT_TRUE(bound.is_kept(l.value("s")));
  EXPECT_TRUE(bound.is_kept(l.plan.root(l.value("t"))));
}

TEST(InvariantSteps, WhatIsTooLargeRunsEachTime) {
  const std::string text = "graph (%x: f32[n], %z: f32[n, k]) {" + table + R"(
    %column = reshape {shape=shape(n, 1)} (%t)
    %wide = expand {shape=shape(n, k)} (%column)
    %s = softmax {axis=0} (%wide)
    %sum = reduce {kind=sum, axes=[1], keep_dims=false} (%wide)
    %m = pointwise {function=mul} (%x, %sum)
    %y = pointwise {function=add} (%s, %z)
    return %m, %y
  })";
  const Lowered l(text);
  EXPECT_EQ(l.invariant(), "count r f t wide s sum");
  const BoundPlan most(l.plan, {{"n", 4096}, {"k", 4095}}, 1);
  EXPECT_EQ(l.kept(most), "s sum");
  EXPECT_EQ(most.kept_bytes(), most_kept_bytes);
  const BoundPlan large(l.plan, {{"n", 4096}, {"k", 4096}}, 1);
  EXPECT_EQ(l.hoisted(large), "count r f t") << "nor can what is made of it be computed before";
  EXPECT_EQ(l.kept(large), "t");
  EXPECT_LE(large.kept_bytes(), most_kept_bytes);
}

TEST(InvariantSteps, OfConstantsAloneToo) {
  const Lowered l(R"(graph (%x: f32[4]) {
    const %a: f32[4] = [1, 2, 3, 4]
    %b = softmax {axis=0} (%a)
    %g = random {distribution=uniform, dtype=f32, shape=shape(4), a=0.0, b=1.0, seed=3} ()
    %c = pointwise {function=add} (%b, %x)
    %y = pointwise {function=add} (%c, %g)
    return %y
  })");
  EXPECT_EQ(l.invariant(), "b g");
}

}  // namespace
}  // namespace camshaft::invariant_steps_test
