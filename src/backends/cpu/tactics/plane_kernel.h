// The kernel of a convolution on planes or by columns, transposed or not. Internal to their tactics.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/cpu/tactics/part_inputs.h"
#include "base/divide_up.h"

namespace camshaft::cpu {

/// `View` has the convolution (`conv`), its inputs in the region (`inputs`), its shapes with the channels last by those
/// of the region (`shapes()`), makes the plan for these (`plan()`) and, unless the weights are used as the model has
/// them, packs these (`packed_floats()`, `pack()`). `compute`: the function that runs the plan. Without `packed` the
/// weights, which are few, are packed in each run.
template <class View, auto compute>
class PlaneKernel final : public Kernel {
 public:
  PlaneKernel(View view, const float* packed) : view_(std::move(view)), packed_(packed) {}
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return std::make_unique<OfShapes>(view_, packed_, view_.shapes(shapes));
  }
  bool reads_input(size_t i) const override {
    const SpatialView& spatial = view_.conv.spatial;
    return !packed_ || !view_.inputs.all_uses(i, [&](size_t own) {
      return static_cast<int32_t>(own) == spatial.weights && !spatial.epilogue.reads(own);
    });
  }

 private:
  class OfShapes final : public Launch {
   public:
    OfShapes(const View& view, const float* packed, const KernelShapes& shapes)
        : view_(view),
          packed_(packed),
          threads_(shapes.threads),
          pointers_(view.inputs.size()),
          plan_(view.plan(shapes)),
          epilogue_(view.conv.spatial.epilogue, shapes, shapes.outputs[0].dims.back()) {}
    size_t workspace_bytes() const override {
      return packing_bytes() + static_cast<size_t>(plan_.workspace_bytes(threads_));
    }
    void run(const LaunchArguments& arguments) override {
      auto* y = reinterpret_cast<float*>(arguments.outputs[0]);
      view_.inputs.bind(arguments.inputs, pointers_);
      const Epilogue epilogue =
          epilogue_.bind({pointers_, arguments.outputs, nullptr, arguments.pool, arguments.cancellation}, y);
      const auto operand = [&](int32_t i) { return reinterpret_cast<const float*>(pointers_[static_cast<size_t>(i)]); };
      const float* packed = packed_ ? packed_ : operand(view_.conv.spatial.weights);
      if constexpr (packs) {
        if (!packed_) {
          auto* to = reinterpret_cast<float*>(arguments.workspace);
          view_.pack(packed, to);
          packed = to;
        }
      }
      compute(plan_, operand(view_.conv.spatial.x), packed, y, epilogue, arguments.pool,
              arguments.workspace + packing_bytes());
    }

   private:
    static constexpr bool packs = requires(const View& view) { view.packed_floats(); };

    size_t packing_bytes() const {
      if constexpr (packs)
        if (!packed_) return static_cast<size_t>(round_up(view_.packed_floats() * int64_t{sizeof(float)}, 64));
      return 0;
    }

    const View& view_;
    const float* packed_;
    int threads_;
    std::vector<const std::byte*> pointers_;  // the convolution's inputs
    decltype(std::declval<const View&>().plan(std::declval<const KernelShapes&>())) plan_;
    BoundEpilogue epilogue_;
  };

  View view_;
  const float* packed_;
};

/// The kernel, with weights that are constants packed as `layout` says. `part`: the convolution as a region.
template <class View, auto compute>
std::shared_ptr<const Kernel> compile_plane_kernel(View view, const RegionView& part, const std::string& layout,
                                                   PackedConstants& constants) {
  using Planes = PlaneKernel<View, compute>;
  if (!view.conv.spatial.constant_weights) return std::make_shared<Planes>(std::move(view), nullptr);
  const Value& w = part.graph.value(part.node.inputs[static_cast<size_t>(view.conv.spatial.weights)]);
  const auto bytes = constants.get(
      w.name, layout, *w.constant, static_cast<size_t>(view.packed_floats()) * sizeof(float),
      [&](const Tensor& raw, std::byte* out) { view.pack(raw.as<float>(), reinterpret_cast<float*>(out)); });
  return std::make_shared<Planes>(std::move(view), reinterpret_cast<const float*>(bytes.data()));
}

}  // namespace camshaft::cpu
