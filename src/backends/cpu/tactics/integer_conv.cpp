#include "backends/cpu/tactics/integer_conv.h"

#include <algorithm>

#include "backends/cpu/kernels/tile_traits.h"
#include "backends/cpu/tactics/integer_conv_kernel.h"
#include "backends/cpu/tactics/integer_operands.h"
#include "backends/cpu/tactics/integer_weights.h"

namespace camshaft::cpu {

namespace {

Int8Weights int8_weights_of(const IntegerConvView& view) {
  const Dims& w = view.conv.spatial.weight_dims;
  const int64_t groups = view.conv.op.groups, taps = element_count(w) / (w[0] * w[1]);
  // Lines of the kernel, where the plan may take rows by these.
  const bool by_lines = taps > 1 && w[1] <= kFewPixelBytes && groups == 1;
  return int8_weights(groups, w[0] / groups, taps, w[1], false, by_lines ? w.back() * w[1] : 0);
}

class IntegerConvLaunch final : public Launch {
 public:
  IntegerConvLaunch(const IntegerConvView& view, const std::byte* packed, const KernelShapes& shapes)
      : view_(view),
        packed_(packed),
        threads_(shapes.threads),
        plan_(conv_shape(view.conv, shapes), 1),
        weights_(int8_weights_of(view)),
        zeros_(weights_, 1),
        padding_(static_cast<size_t>(plan_.depth())),
        epilogue_(view.epilogue, shapes, plan_.shape().out_channels),
        operands_(view, shapes) {
    input_bytes_ = element_count(shapes.inputs[static_cast<size_t>(view.conv.spatial.x)].dims);
  }

  size_t workspace_bytes() const override { return static_cast<size_t>(copy_at() + copy_bytes()); }

  void run(const LaunchArguments& arguments) override {
    const auto input = [&](int32_t i) { return i < 0 ? nullptr : arguments.inputs[static_cast<size_t>(i)]; };
    operands_.x.zeros = input(view_.x_zero);
    operands_.w.zeros = input(view_.weights_zero);
    const uint8_t bits = flips() ? 0x80 : 0;
    const auto zero = static_cast<uint8_t>(operands_.x.zero(0, false));
    std::fill(padding_.begin(), padding_.end(), static_cast<uint8_t>(zero ^ bits));
    const uint8_t* x = prepared(reinterpret_cast<const uint8_t*>(input(view_.conv.spatial.x)), zero, arguments);
    const std::byte* packed = packed_;
    if (!packed) {
      std::byte* own = arguments.workspace + scratch_bytes();
      pack_int8(weights_, reinterpret_cast<const uint8_t*>(input(view_.conv.spatial.weights)),
                operands_.w.dtype == DType::u8, own);
      packed = own;
    }
    const ConvShape& shape = plan_.shape();
    Int8Problem p;
    p.m = plan_.rows();
    p.weights = &weights_;
    p.rows.taps = plan_.taps();
    p.rows.depth = plan_.depth();
    p.rows.has_room = plan_.copy_elements() > 0;
    epilogue_.bind(arguments, p);
    for (int64_t g = 0; g < weights_.groups; ++g) {
      const Source source{&plan_, x + g * weights_.depth, padding_.data()};
      if (plan_.method() == ConvPlan::Method::pointwise) {
        p.rows.base = source.x;
        p.rows.row_stride = shape.in_pixel_stride ? shape.in_pixel_stride : shape.in_channels;
      } else {
        p.rows.fill = &Source::fill;
        p.rows.context = &source;
      }
      p.packed = packed + g * weights_.group_words() * 4;
      p.col0 = g * weights_.columns;
      zeros_.bind(operands_.x, operands_.w, reinterpret_cast<const int32_t*>(input(view_.bias)), g, p);
      int8_gemm(p, arguments.pool, arguments.workspace);
    }
  }

 private:
  struct Source {
    const ConvPlan* plan;
    const uint8_t *x, *padding;
    static void fill(const void* context, int64_t row0, int64_t rows, const uint8_t** pointers, int64_t stride) {
      const auto& s = *static_cast<const Source*>(context);
      s.plan->find_rows(s.x, s.padding, row0, rows, pointers, stride);
    }
  };

  bool flips() const { return operands_.x.dtype == DType::i8; }
  int64_t copy_bytes() const {
    return plan_.copy_elements() > 0 ? plan_.copy_elements() + Int8Rows::kRoom : flips() ? input_bytes_ : 0;
  }

  // The input, or a copy with its padding, and as u8: so a product may read its rows in place.
  const uint8_t* prepared(const uint8_t* x, uint8_t zero, const LaunchArguments& arguments) const {
    if (copy_bytes() == 0 || plan_.rows() == 0) return x;
    auto* copy = reinterpret_cast<uint8_t*>(arguments.workspace + copy_at());
    const bool padded = plan_.copy_elements() > 0;
    if (padded) plan_.copy_padded(x, zero, copy, arguments.pool);
    if (!flips()) return copy;
    const uint8_t* from = padded ? copy : x;
    arguments.pool.parallel_for(padded ? plan_.copy_elements() : input_bytes_, int64_t{1} << 16,
                                [&](int64_t begin, int64_t end) {
                                  for (int64_t i = begin; i < end; ++i) copy[i] = from[i] ^ 0x80;
                                });
    return copy;
  }

  // Behind the scratch memory lie weights that are no constants, then the copy.
  int64_t copy_at() const { return scratch_bytes() + (packed_ ? 0 : (weights_.bytes() + 63) / 64 * 64); }
  int64_t scratch_bytes() const {
    return int8_workspace_bytes(weights_, plan_.rows(), plan_.taps(), view_.epilogue.gives_blocks(), threads_);
  }

  const IntegerConvView& view_;
  const std::byte* packed_;  // null: weights are packed in each run
  int threads_;
  int64_t input_bytes_ = 0;
  ConvPlan plan_;
  Int8Weights weights_;
  ZeroTerms zeros_;
  std::vector<uint8_t> padding_;  // what pointers in the padding point at
  BoundIntegerEpilogue epilogue_;
  ConvOperands operands_;
};

std::optional<double> estimate_integer_conv(const RegionView& region) {
  const auto view = view_integer_conv(region);
  if (!view) return std::nullopt;
  // Four products of 8 bits take the place of one of f32, eight where a unit multiplies tiles. Groups narrower than a
  // vector leave lanes idle.
  constexpr int64_t many_rows = 64;
  const double width = static_cast<double>(int8_weights_of(*view).columns), lanes = tile_traits().lanes();
  const double waste = std::max(1.0, lanes / width);
  const bool tiles = int8_takes_tiles(int8_weights_of(*view), many_rows);
  return seconds_per_launch + std::max(conv_flops(region, view->conv) * waste * seconds_per_flop / (tiles ? 8 : 4),
                                       bytes_at_optimum(region) * seconds_per_byte);
}

std::shared_ptr<const Kernel> compile_integer_conv(const RegionView& region, PackedConstants& constants) {
  IntegerConvView view = *view_integer_conv(region);
  const auto weights = static_cast<size_t>(view.conv.spatial.weights);
  const std::byte* packed = view.conv.spatial.constant_weights
                                ? packed_integer_weights(region, weights, int8_weights_of(view), constants)
                                : nullptr;
  return std::make_shared<IntegerConvKernel<IntegerConvLaunch>>(std::move(view), packed);
}

}  // namespace

const CpuTactic integer_conv_tactic{"integer_conv", estimate_integer_conv, compile_integer_conv};

}  // namespace camshaft::cpu
