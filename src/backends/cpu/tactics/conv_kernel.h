// The kernel of a tactic that runs a convolution as one problem: direct, depthwise, narrow groups, Winograd.
#pragma once

#include <tuple>

#include "backends/cpu/tactics/conv_view.h"

namespace camshaft::cpu {

/// A Problem is made of (view, shapes, parameters…) and has
///   int64_t workspace_bytes(int threads) const;
///   void run(const float* x, const float* packed, float* y, const Epilogue&, ThreadPool&, std::byte* workspace) const;
/// and, if its weights need not be constants, what packs them in each run:
///   int64_t packed_floats() const;
///   void pack(const float* weights, float* packed, ThreadPool&) const;
template <class Problem>
class ConvLaunch final : public Launch {
 public:
  /// Without `packed` the weights are packed in each run.
  template <class... Parameters>
  ConvLaunch(const ConvView& view, const float* packed, const KernelShapes& shapes, const Parameters&... parameters)
      : x_(static_cast<size_t>(view.spatial.x)),
        weights_(static_cast<size_t>(view.spatial.weights)),
        packed_(packed),
        threads_(shapes.threads),
        problem_(view, shapes, parameters...),
        epilogue_(view.spatial.epilogue, shapes, shapes.outputs[0].dims.back()) {}
  size_t workspace_bytes() const override {
    return packing_bytes() + static_cast<size_t>(problem_.workspace_bytes(threads_));
  }
  void run(const LaunchArguments& arguments) override {
    const float* packed = packed_;
    if constexpr (packs) {
      if (!packed) {
        auto* to = reinterpret_cast<float*>(arguments.workspace);
        problem_.pack(reinterpret_cast<const float*>(arguments.inputs[weights_]), to, arguments.pool);
        packed = to;
      }
    }
    auto* y = reinterpret_cast<float*>(arguments.outputs[0]);
    problem_.run(reinterpret_cast<const float*>(arguments.inputs[x_]), packed, y, epilogue_.bind(arguments, y),
                 arguments.pool, arguments.workspace + packing_bytes());
  }

 private:
  static constexpr bool packs = requires(const Problem& p) { p.packed_floats(); };

  size_t packing_bytes() const {
    if constexpr (packs)
      if (!packed_) return (static_cast<size_t>(problem_.packed_floats()) * sizeof(float) + 63) / 64 * 64;
    return 0;
  }

  size_t x_, weights_;
  const float* packed_;
  int threads_;
  Problem problem_;
  BoundEpilogue epilogue_;
};

/// `packed` weights, or null: they are no constant. `parameters` are the tactic's.
template <class Problem, class... Parameters>
class ConvKernel final : public Kernel {
 public:
  ConvKernel(ConvView view, const float* packed, Parameters... parameters)
      : view_(std::move(view)), packed_(packed), parameters_(std::move(parameters)...) {}
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return std::apply(
        [&](const auto&... p) { return std::make_unique<ConvLaunch<Problem>>(view_, packed_, shapes, p...); },
        parameters_);
  }
  bool can_run_in_place(size_t i, size_t) const override { return view_.spatial.epilogue.can_overwrite(i); }
  bool reads_slices(size_t i) const override {
    // Pixels of bf16 are read as pairs, which slices need not begin with.
    const bool rounded = view_.spatial.rounded_x && static_cast<int32_t>(i) == view_.spatial.x;
    return Problem::takes_slices && !is_weights(i) && !rounded && view_.spatial.epilogue.reads_slices(i);
  }
  bool writes_slices(size_t) const override { return Problem::takes_slices; }
  bool reads_input(size_t i) const override { return !packed_ || !is_weights(i) || view_.spatial.epilogue.reads(i); }

 private:
  bool is_weights(size_t i) const { return static_cast<int32_t>(i) == view_.spatial.weights; }

  ConvView view_;
  const float* packed_;
  std::tuple<Parameters...> parameters_;
};

}  // namespace camshaft::cpu
