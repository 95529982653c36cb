#include "compile/plan/branch_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/aligned_buffer.h"
#include "compile/plan/bound_plan.h"
#include "ir/ops/control_flow.h"
#include "reference/evaluate.h"

namespace camshaft {

namespace {

// Where operands without elements lie.
alignas(64) constinit std::byte nothing[64] = {};

struct Branch {
  Plan plan;
  PackedConstants packed;  // the kernels have views of it
};

using Branches = std::array<Branch, 2>;  // of a true condition, of a false one

/// A branch at one set of shapes, with its memory.
class BranchRun {
 public:
  BranchRun(const Plan& plan, const KernelShapes& shapes, SymbolBindings symbols)
      : plan_(plan), bound_(plan, bind(plan, shapes, std::move(symbols)), shapes.threads) {
    for (size_t o = 0; o < shapes.outputs.size(); ++o)
      if (bound_.dims(plan.outputs[o]) != shapes.outputs[o].dims)
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("the branch gives {}, expected {}", to_string(bound_.dims(plan.outputs[o])),
                                to_string(shapes.outputs[o].dims)));
    for (size_t s = 0; s < plan.steps.size(); ++s)
      if (!bound_.launch(s))
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("layer '{}' of a branch needs sizes that no tensor tells", plan.steps[s].name));
    arena_ = AlignedBuffer(static_cast<size_t>(std::max<int64_t>(bound_.arena_bytes(DeviceId::host), 64)),
                           "the tensors of a branch");
    kept_ = AlignedBuffer(static_cast<size_t>(std::max<int64_t>(bound_.kept_bytes(DeviceId::host), 64)),
                          "the tensors that a branch keeps");
    pointers_.assign(plan.values.size(), nothing);
    for (size_t v = 0; v < plan.values.size(); ++v) {
      const PlanValue& value = plan.values[v];
      if (bound_.bytes(static_cast<int32_t>(v)) == 0) continue;
      if (value.storage == Storage::constant) pointers_[v] = const_cast<std::byte*>(value.constant->data());
      const auto id = static_cast<int32_t>(v);
      if (value.storage == Storage::arena)
        pointers_[v] = (bound_.is_kept(id) ? kept_ : arena_).data() + bound_.offset(id);
    }
  }

  void run(const LaunchArguments& arguments) {
    for (size_t v = 0; v < plan_.values.size(); ++v) {
      const PlanValue& value = plan_.values[v];
      if (bound_.bytes(static_cast<int32_t>(v)) == 0) continue;
      const auto index = static_cast<size_t>(value.index);
      if (value.storage == Storage::input) pointers_[v] = const_cast<std::byte*>(arguments.inputs[1 + index]);
      if (value.storage == Storage::output) pointers_[v] = arguments.outputs[index];
    }
    for (size_t s = 0; s < plan_.steps.size() && !has_hoisted_; ++s)
      if (bound_.is_hoisted(s)) run_step(s, arguments);
    has_hoisted_ = true;
    for (size_t s = 0; s < plan_.steps.size(); ++s)
      if (!bound_.is_hoisted(s)) run_step(s, arguments);
  }

 private:
  static SymbolBindings bind(const Plan& plan, const KernelShapes& shapes, SymbolBindings symbols) {
    for (size_t i = 0; i < plan.inputs.size(); ++i)
      for (size_t d = 0; d < shapes.inputs[1 + i].dims.size(); ++d)  // all names first: expressions may use them
        if (const auto symbol = type(plan, i).shape.at(d).as_symbol())
          symbols.emplace(*symbol, shapes.inputs[1 + i].dims[d]);
    for (size_t i = 0; i < plan.inputs.size(); ++i)
      bind_symbols(type(plan, i).shape, shapes.inputs[1 + i].dims, fmt::format("tensor '{}'", plan.input_names[i]),
                   symbols);
    return symbols;
  }

  static const TensorType& type(const Plan& plan, size_t input) {
    return plan.values[static_cast<size_t>(plan.inputs[input])].type;
  }

  std::byte* pointer(int32_t value) const {
    return pointers_[static_cast<size_t>(plan_.root(value))] + bound_.shift(value);
  }

  void run_step(size_t s, const LaunchArguments& arguments) {
    const PlanStep& step = plan_.steps[s];
    if (arguments.cancellation) arguments.cancellation->check("running a branch");
    inputs_.clear();
    outputs_.clear();
    for (const int32_t id : step.inputs) inputs_.push_back(id < 0 ? nullptr : pointer(id));
    for (const int32_t id : step.outputs) outputs_.push_back(pointer(id));
    try {
      bound_.launch(s)->run(
          {inputs_, outputs_, arena_.data() + bound_.workspace_offset(s), arguments.pool, arguments.cancellation});
    } catch (const Error& e) {
      const std::string from = step.sources.empty() ? "" : fmt::format(" (from node '{}')", step.sources.front());
      throw Error(e.code(), fmt::format("layer '{}'{}: {}", step.name, from, e.what()));
    }
  }

  const Plan& plan_;
  BoundPlan bound_;
  AlignedBuffer arena_, kept_;
  bool has_hoisted_ = false;  // all that runs once
  std::vector<std::byte*> pointers_;
  std::vector<const std::byte*> inputs_;
  std::vector<std::byte*> outputs_;
};

/// What is bound and allocated for a branch is kept from its first run on: the other one may not even fit the shapes.
class BranchLaunch final : public Launch {
 public:
  BranchLaunch(std::shared_ptr<const Branches> branches, const KernelShapes& shapes)
      : branches_(std::move(branches)), shapes_(shapes), symbols_(*shapes.symbols) {
    shapes_.symbols = &symbols_;
    if (element_count(shapes.inputs.at(0).dims) != 1)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("the condition has {} elements instead of one", element_count(shapes.inputs[0].dims)));
  }

  void run(const LaunchArguments& arguments) override {
    const size_t taken = arguments.inputs[0][0] != std::byte{0} ? 0 : 1;
    std::unique_ptr<BranchRun>& run = runs_[taken];
    if (!run) run = std::make_unique<BranchRun>((*branches_)[taken].plan, shapes_, symbols_);
    run->run(arguments);
  }

 private:
  std::shared_ptr<const Branches> branches_;
  KernelShapes shapes_;
  SymbolBindings symbols_;
  std::array<std::unique_ptr<BranchRun>, 2> runs_;
};

class BranchKernel final : public Kernel {
 public:
  explicit BranchKernel(std::shared_ptr<const Branches> branches) : branches_(std::move(branches)) {}
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return std::make_unique<BranchLaunch>(branches_, shapes);
  }

 private:
  std::shared_ptr<const Branches> branches_;
};

bool is_static(const Plan& plan) {
  return std::none_of(plan.values.begin(), plan.values.end(),
                      [](const PlanValue& value) { return value.storage == Storage::dynamic; });
}

}  // namespace

std::shared_ptr<const Kernel> make_branch_kernel(const RegionView& region, const Backend& backend,
                                                 const std::set<std::string, std::less<>>& bound,
                                                 const Cancellation& cancellation) {
  if (!region.node.op.as<ops::If>() || make_reference_kernel(region)->has_dynamic_outputs()) return nullptr;
  const auto branches = std::make_shared<Branches>();
  LowerOptions inner;
  inner.symbols = region.symbols;
  inner.most_deviation = Deviation::none;
  inner.host_only = true;
  inner.bound = bound;
  inner.cancellation = cancellation;
  for (size_t b = 0; b < branches->size(); ++b) {
    Branch& branch = (*branches)[b];
    Graph body = region.node.bodies.at(b);
    body.outputs.resize(region.node.outputs.size());  // more than that nobody reads, and has no memory
    body.output_names.resize(body.outputs.size());
    try {
      branch.plan = lower(body, backend, branch.packed, inner);
    } catch (const Error& e) {
      if (e.code() == ErrorCode::cancelled || e.code() == ErrorCode::out_of_memory) throw;
      return nullptr;
    }
    if (!is_static(branch.plan)) return nullptr;
  }
  return std::make_shared<BranchKernel>(branches);
}

}  // namespace camshaft
