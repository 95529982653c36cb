// What is said of layers that read each other's results.
#include "compile/region/layer_borders.h"

#include <gtest/gtest.h>

namespace camshaft::layer_borders_test {
namespace {

using Notes = std::vector<std::string>;

struct MadePlan {
  Plan plan;
  std::vector<LayerExplanation> explanations;

  // A step of values by index; its result is a new value.
  int32_t step(const std::string& op, std::vector<int32_t> inputs, const std::string& source = "",
               const std::string& tactic = "fast") {
    const auto result = static_cast<int32_t>(plan.values.size());
    value("v" + std::to_string(result), Storage::arena, -1);
    PlanStep step;
    step.node = static_cast<int32_t>(plan.steps.size());
    step.name = plan.values.back().name;
    step.op = op;
    step.tactic = tactic;
    step.inputs = std::move(inputs);
    step.outputs = {result};
    if (!source.empty()) step.sources = {source};
    plan.steps.push_back(std::move(step));
    explanations.emplace_back();
    return result;
  }
  int32_t view(int32_t of, Storage storage = Storage::alias) {
    value("view", storage, of);
    return static_cast<int32_t>(plan.values.size()) - 1;
  }
  void value(const std::string& name, Storage storage, int32_t index) {
    PlanValue made;
    made.name = name;
    made.storage = storage;
    made.index = index;
    plan.values.push_back(std::move(made));
  }
  Notes notes(int32_t of) {
    note_borders(plan, explanations);
    for (const PlanStep& step : plan.steps)
      if (step.outputs[0] == of) return explanations[static_cast<size_t>(step.node)].notes;
    return {"?"};
  }
};

TEST(LayerBorders, SaysWhatTheReaderNeeds) {
  MadePlan p;
  const int32_t a = p.step("conv", {-1});
  p.step("conv", {a}, "Next");
  p.step("layer_norm", {p.view(a)}, "Norm");
  p.step("pool", {a}, "Pool");
  p.step("pool", {a, a}, "Pool2");
  p.step("pointwise", {a}, "Relu");
  EXPECT_EQ(p.notes(a), (Notes{"not fused with 'Next': conv begins a kernel: it reads what it takes many times",
                               "not fused with 'Norm': layer_norm needs many results before it can give its first",
                               "not fused with 'Pool', 'Pool2': pool has a kernel of its own"}));
}

TEST(LayerBorders, SaysWhatTheWriterCannot) {
  MadePlan p;
  const int32_t a = p.step("group_norm", {-1}), b = p.step("range", {-1}, "", "reference");
  const int32_t c = p.step("pointwise", {a, b});
  for (const char* name : {"A", "B", "C", "D", "E"}) p.step("transpose", {c}, name);
  EXPECT_EQ(p.notes(c), Notes{"not fused with 'A', 'B', 'C' and 2 more: transpose has a kernel of its own"});
  EXPECT_EQ(p.explanations[0].notes, Notes{"not fused with 'v2': no kernel for group_norm computes more behind it"});
  EXPECT_EQ(p.explanations[1].notes, Notes{"not fused with 'v2': it runs through the reference evaluation"});
}

TEST(LayerBorders, OfReductionsAndTheStepsBehindFuseTells) {
  MadePlan p;
  const int32_t a = p.step("reduce", {-1});
  p.step("pointwise", {a}, "Relu");
  p.step("conv", {a}, "Conv");
  EXPECT_EQ(p.notes(a), Notes{"not fused with 'Conv': conv begins a kernel: it reads what it takes many times"});
}

TEST(LayerBorders, LeavesOutWhatIsToldOrFusedAlready) {
  MadePlan p;
  const int32_t a = p.step("conv", {-1});
  p.step("conv", {a}, "Add");
  p.explanations[0].notes = {"not fused with 'Add': it is computed together with 'Conv'"};
  const int32_t b = p.step("conv", {-1});
  const int32_t slice = p.step("conv", {-1});
  const int32_t whole = p.step("concat", {slice, b}, "Concat");
  p.plan.values[static_cast<size_t>(slice)].storage = Storage::slice;
  p.plan.values[static_cast<size_t>(slice)].index = whole;
  EXPECT_EQ(p.notes(a).size(), 1U);
  EXPECT_EQ(p.explanations[2].notes, Notes{"not fused with 'Concat': concat has a kernel of its own"});
  EXPECT_EQ(p.explanations[3].notes, Notes{}) << "it is computed in place";
}

}  // namespace
}  // namespace camshaft::layer_borders_test
