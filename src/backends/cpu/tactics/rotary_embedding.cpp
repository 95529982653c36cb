#include "backends/cpu/tactics/rotary_embedding.h"

#include "backends/cpu/kernels/attention/rotary_embedding.h"
#include "backends/cpu/tactics/simple_kernel.h"
#include "ir/ops/rotary_embedding.h"

namespace camshaft::cpu {

namespace {

std::optional<double> estimate_rotary_embedding(const RegionView& region) {
  const auto* op = region.node.op.as<ops::RotaryEmbedding>();
  if (!op || op->axes.size() > static_cast<size_t>(most_strided_dims)) return std::nullopt;
  for (const ValueId id : region.node.inputs)
    if (region.graph.type(id).dtype != DType::f32) return std::nullopt;
  return seconds_per_launch + bytes_at_optimum(region) * seconds_per_byte;
}

std::shared_ptr<const Kernel> compile_rotary_embedding(const RegionView& region, PackedConstants&) {
  return simple_kernel(
      [op = *region.node.op.as<ops::RotaryEmbedding>()](const KernelShapes& shapes) {
        std::vector<Dims> inputs;
        for (const OperandShape& input : shapes.inputs) inputs.push_back(input.dims);
        const ops::BoundRotaryEmbedding bound =
            ops::bind_rotary_embedding(op, inputs, shapes.outputs[0].dims, *shapes.symbols);
        Rotary rotary;
        rotary.width = bound.width;
        rotary.rotated = op.rotated;
        rotary.interleaved = op.interleaved;
        rotary.cosine = {bound.cosine.second, bound.cosine.pair};
        rotary.sine = {bound.sine.second, bound.sine.pair};
        Dims result = contiguous_strides(bound.axes);
        for (int64_t& stride : result) stride *= shapes.outputs[0].pitch();
        rotary.rows = {bound.axes, {bound.x.strides, bound.cosine.strides, bound.sine.strides, std::move(result)}};
        rotary.prepare();
        return
            [=, x = bound.x.offset, cosine = bound.cosine.offset, sine = bound.sine.offset](const LaunchArguments& a) {
              rotary.run(a.pool, input<float>(a, 0) + x, input<float>(a, 1) + cosine, input<float>(a, 2) + sine,
                         output<float>(a, 0));
            };
      },
      false, {.output = true});
}

}  // namespace

const CpuTactic rotary_embedding_tactic{"rotary_embedding", estimate_rotary_embedding, compile_rotary_embedding};

}  // namespace camshaft::cpu
