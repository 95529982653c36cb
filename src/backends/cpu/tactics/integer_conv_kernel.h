// The kernel of all convolutions of 8-bit numbers: they differ in what runs for concrete shapes.
#pragma once

#include <memory>
#include <utility>

#include "backends/cpu/tactics/integer_conv_view.h"
#include "compile/kernel.h"

namespace camshaft::cpu {

/// `ConvLaunch` is made of the view, the packed weights and the shapes, and holds on to the first two.
template <class ConvLaunch>
class IntegerConvKernel final : public Kernel {
 public:
  /// `packed` is null where weights are no constants: they are packed in each run.
  IntegerConvKernel(IntegerConvView view, const std::byte* packed) : view_(std::move(view)), packed_(packed) {}
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return std::make_unique<ConvLaunch>(view_, packed_, shapes);
  }
  bool reads_input(size_t i) const override {
    return !packed_ || static_cast<int32_t>(i) != view_.conv.spatial.weights || view_.epilogue.reads(i);
  }

 private:
  IntegerConvView view_;
  const std::byte* packed_;
};

}  // namespace camshaft::cpu
