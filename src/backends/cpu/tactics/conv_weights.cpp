#include "backends/cpu/tactics/conv_weights.h"

#include "backends/cpu/kernels/conv/depthwise.h"
#include "backends/cpu/kernels/gemm/bf16_pairs.h"
#include "compile/constants/layout_text.h"

namespace camshaft::cpu {

namespace {

constexpr auto conv_numbers = [](auto& weights, auto&& number) {
  number("conv o=", weights.out_channels);
  number(" c=", weights.group_channels);
  number(" h=", weights.kernel_h);
  number(" w=", weights.kernel_w);
  number(" groups=", weights.groups);
  number(" width=", weights.layout.width);
  number(" lanes=", weights.layout.lanes);
};

struct PairedWeights {
  ConvWeights words;
  int64_t group_channels = 0;
};

PairedWeights paired_weights(const ConvWeights& w) {
  return {conv_weights(w.out_channels, pairs_of(w.group_channels), w.kernel_h, w.kernel_w, w.groups), w.group_channels};
}

constexpr auto paired_numbers = [](auto& weights, auto&& number) {
  number("conv_bf16 o=", weights.words.out_channels);
  number(" c=", weights.group_channels);
  number(" h=", weights.words.kernel_h);
  number(" w=", weights.words.kernel_w);
  number(" groups=", weights.words.groups);
  number(" width=", weights.words.layout.width);
  number(" lanes=", weights.words.layout.lanes);
};

struct DepthwiseWeights {
  int64_t channels = 0, kernel_h = 1, kernel_w = 1;
  size_t bytes() const {
    return static_cast<size_t>(depthwise_weight_floats(channels, kernel_h, kernel_w)) * sizeof(float);
  }
};

constexpr auto depthwise_numbers = [](auto& weights, auto&& number) {
  number("depthwise16 o=", weights.channels);
  number(" h=", weights.kernel_h);
  number(" w=", weights.kernel_w);
};

Tensor unpack_depthwise(const DepthwiseWeights& w, const PackedConstant& packed, DType dtype, const Dims& dims) {
  const bool fits = dtype == DType::f32 && (dims.size() == 3 || dims.size() == 4) && w.channels == dims[0] &&
                    dims[1] == 1 && w.kernel_h == (dims.size() == 4 ? dims[2] : 1) && w.kernel_w == dims.back();
  if (!fits || packed.bytes.size() != w.bytes()) throw_misfit(packed, dims);
  Tensor raw(dtype, dims);
  unpack_depthwise_weights(w.channels, w.kernel_h, w.kernel_w, reinterpret_cast<const float*>(packed.bytes.data()),
                           raw.as_mutable<float>());
  return raw;
}

}  // namespace

const float* pack_conv(const RegionView& region, const ConvView& view, PackedConstants& constants) {
  const Value& w = region.graph.value(region.node.inputs[static_cast<size_t>(view.spatial.weights)]);
  const ConvWeights weights = conv_weights_of(view);
  const auto bytes =
      constants.get(w.name, layout_text(conv_numbers, weights), *w.constant,
                    static_cast<size_t>(weights.floats()) * sizeof(float), [&](const Tensor& raw, std::byte* out) {
                      pack_conv_weights(weights, raw.as<float>(), reinterpret_cast<float*>(out));
                    });
  return reinterpret_cast<const float*>(bytes.data());
}

const float* pack_conv_bf16(const RegionView& region, const ConvView& view, PackedConstants& constants) {
  const Value& w = region.graph.value(region.node.inputs[static_cast<size_t>(view.spatial.weights)]);
  const PairedWeights paired = paired_weights(conv_weights_of(view));
  const auto bytes = constants.get(
      w.name, layout_text(paired_numbers, paired), *w.constant,
      static_cast<size_t>(paired.words.floats()) * sizeof(float), [&](const Tensor& raw, std::byte* out) {
        pack_conv_pairs(paired.words, paired.group_channels, raw.as<float>(), reinterpret_cast<float*>(out));
      });
  return reinterpret_cast<const float*>(bytes.data());
}

const float* pack_depthwise(const RegionView& region, const ConvView& view, PackedConstants& constants) {
  const Value& w = region.graph.value(region.node.inputs[static_cast<size_t>(view.spatial.weights)]);
  const DepthwiseWeights weights{view.spatial.weight_dims[0], view.spatial.kernel_h(), view.spatial.kernel_w()};
  const auto bytes = constants.get(w.name, layout_text(depthwise_numbers, weights), *w.constant, weights.bytes(),
                                   [&](const Tensor& raw, std::byte* out) {
                                     pack_depthwise_weights(weights.channels, weights.kernel_h, weights.kernel_w,
                                                            raw.as<float>(), reinterpret_cast<float*>(out));
                                   });
  return reinterpret_cast<const float*>(bytes.data());
}

Tensor unpack_conv(const PackedConstant& packed, DType dtype, const Dims& dims) {
  if (DepthwiseWeights depthwise; read_layout_text(packed.layout, depthwise_numbers, depthwise))
    return unpack_depthwise(depthwise, packed, dtype, dims);
  ConvWeights named;
  PairedWeights paired;
  const bool is_paired = read_layout_text(packed.layout, paired_numbers, paired);
  if (is_paired) {
    named = paired.words;
    named.group_channels = paired.group_channels;
  } else if (!read_layout_text(packed.layout, conv_numbers, named)) {
    return {};
  }
  int64_t lines = 1;
  for (size_t i = 2; i + 1 < dims.size(); ++i) lines *= dims[i];
  const bool fits = dtype == DType::f32 && dims.size() >= 3 && dims.size() <= 5 && named.groups > 0 &&
                    named.layout.has_possible_panels() && named.out_channels == dims[0] &&
                    named.group_channels == dims[1] && named.kernel_h == lines && named.kernel_w == dims.back() &&
                    named.out_channels % named.groups == 0;
  if (!fits) throw_misfit(packed, dims);
  const int64_t depth = is_paired ? pairs_of(named.group_channels) : named.group_channels;
  ConvWeights weights = conv_weights(named.out_channels, depth, named.kernel_h, named.kernel_w, named.groups);
  weights.layout.width = named.layout.width;
  weights.layout.lanes = named.layout.lanes;
  if (packed.bytes.size() != static_cast<size_t>(weights.floats()) * sizeof(float)) throw_misfit(packed, dims);
  const auto* words = reinterpret_cast<const float*>(packed.bytes.data());
  Tensor raw(is_paired ? DType::bf16 : dtype, dims);
  if (is_paired)
    unpack_conv_pairs(weights, named.group_channels, words, reinterpret_cast<BFloat*>(raw.mutable_data()));
  else
    unpack_conv_weights(weights, words, raw.as_mutable<float>());
  return raw;
}

}  // namespace camshaft::cpu
