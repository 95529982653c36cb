// A device for tests of the compiler: kernels that compute nothing, and say what the test wants them to say.
#pragma once

#include <set>
#include <string>

#include "compile/backend.h"
#include "optimize/canonicalize/fold_constants.h"
#include "optimize/fuse/fuse.h"

namespace camshaft {

class FakeKernel final : public Kernel {
 public:
  FakeKernel(bool in_place, bool reads_constants, std::vector<bool> constants, Place place = Place::host)
      : in_place_(in_place), reads_constants_(reads_constants), constants_(std::move(constants)), place_(place) {}
  Place place() const override { return place_; }
  std::unique_ptr<Launch> prepare(const KernelShapes&) const override { return nullptr; }
  bool can_run_in_place(size_t, size_t) const override { return in_place_; }
  bool reads_input(size_t i) const override { return reads_constants_ || !constants_[i]; }

 private:
  bool in_place_, reads_constants_;
  std::vector<bool> constants_;
  Place place_;
};

/// Tactics "fast" (in place, constants packed as layout "fake") and "slow" (neither) for everything but range, if and
/// dynamic_slice, and "reference" for all. Before them "on_device" for the operators that are named.
class FakeBackend final : public Backend {
 public:
  FakeBackend() = default;
  explicit FakeBackend(std::set<std::string, std::less<>> on_device) : on_device_(std::move(on_device)) {}

  const DeviceInfo& device() const override { return info_; }
  BackendPasses passes(DType, ops::Rounding) const override { return {.form = {fold_constants_pass, fuse_pass}}; }
  std::vector<Tactic> tactics(const RegionView& region) const override {
    for (const char* name : {"range", "dynamic_slice", "if"})
      if (region.node.op.name() == name) return {{"reference", 1}};
    std::vector<Tactic> list{{"fast", 1}, {"slow", 2}, {"reference", 3}};
    if (on_device_.contains(region.node.op.name()))
      list.insert(list.begin(), {.name = "on_device", .estimated_seconds = 0, .place = Place::device});
    return list;
  }
  std::shared_ptr<const Kernel> compile(const RegionView& region, const Tactic& tactic,
                                        PackedConstants& constants) const override {
    if (tactic.name == "reference") return make_reference_kernel(region);
    if (tactic.name == "on_device")
      return std::make_shared<FakeKernel>(false, true, std::vector<bool>(region.node.inputs.size()), Place::device);
    std::vector<bool> is_constant;
    for (const ValueId id : region.node.inputs) {
      is_constant.push_back(region.graph.is_constant(id));
      if (!is_constant.back() || tactic.name != "fast") continue;
      const Value& value = region.graph.value(id);
      constants.get(value.name, "fake", *value.constant, value.constant->bytes(),
                    [](const Tensor& raw, std::byte* out) { std::copy(raw.data(), raw.data() + raw.bytes(), out); });
    }
    return std::make_shared<FakeKernel>(tactic.name == "fast", tactic.name != "fast", std::move(is_constant));
  }
  bool can_unpack(const std::string& layout) const override { return layout == "fake"; }
  Tensor unpack(const PackedConstant& packed, DType dtype, const Dims& dims) const override {
    return Tensor(dtype, dims, packed.bytes, packed.owner);
  }

 private:
  std::set<std::string, std::less<>> on_device_;
  DeviceInfo info_{"fake", "a fake", "none", 1, 0, {}, {}, "test", DeviceId::gpu(0)};
};

}  // namespace camshaft
