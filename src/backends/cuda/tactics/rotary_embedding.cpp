// Rotary position embeddings on a GPU.
#include "ir/ops/rotary_embedding.h"

#include <algorithm>

#include "backends/cuda/codegen/rotary_text.h"
#include "backends/cuda/device/rotary_embedding_parameters.h"
#include "backends/cuda/tactic.h"
#include "backends/cuda/tactics/device_kernel.h"
#include "backends/cuda/tactics/narrow.h"
#include "backends/cuda/tactics/strided_copy.h"
#include "compile/optimum.h"

namespace camshaft::cuda {

namespace {

constexpr size_t most_rotary_embedding_dims = std::size(RotaryParameters{}.size);

struct Rotate {
  Rotate(const Workshop& workshop, DType rows, DType tables)
      : device(workshop.device()),
        function(workshop.module("rotary_embedding", rotary_text(rows, tables)).function("rotate_any")) {}
  std::shared_ptr<const Device> device;  // outlives the function
  Function function;
};

bool has_kernel(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

std::optional<double> estimate_rotary_embedding(const RegionView& region, const DeviceFacts&) {
  const auto* op = region.node.op.as<ops::RotaryEmbedding>();
  if (!op || op->axes.size() > most_rotary_embedding_dims) return std::nullopt;
  for (const ValueId id : region.node.inputs)
    if (!has_kernel(region.graph.type(id).dtype)) return std::nullopt;
  return seconds_per_launch + bytes_at_optimum(region) * seconds_per_byte;
}

RotaryParameters parameter(const ops::RotaryEmbedding& op, const ops::BoundRotaryEmbedding& bound, int64_t pitch) {
  RotaryParameters r;
  r.pairs = narrow(op.rotated / 2);
  const int64_t items = bound.width - op.rotated / 2;
  check_elements(bound.rows * bound.width, "a rotary embedding");
  r.items = narrow(bound.rows * items);
  r.row = Divisor(narrow(std::max<int64_t>(items, 1)));
  r.step = op.interleaved ? 2 : 1;
  r.distance = op.interleaved ? 1 : r.pairs;
  r.pitch = pitch;
  r.rank = narrow(bound.axes.size());
  const auto table = [&](const ops::RotaryAccess& access) {
    RotaryTable t;
    std::copy(access.strides.begin(), access.strides.end(), t.stride);
    t.second = narrow(access.second);
    t.pair = narrow(access.pair);
    return t;
  };
  if (r.items == 0) return r;
  for (size_t d = 0; d < bound.axes.size(); ++d) r.size[d] = Divisor(narrow(bound.axes[d]));
  std::copy(bound.x.strides.begin(), bound.x.strides.end(), r.stride);
  r.cosine = table(bound.cosine);
  r.sine = table(bound.sine);
  return r;
}

std::shared_ptr<const Kernel> compile_rotary_embedding(const RegionView& region, const Workshop& workshop) {
  const auto dtype = [&](size_t i) { return region.graph.type(region.node.inputs[i]).dtype; };
  const auto make = [op = *region.node.op.as<ops::RotaryEmbedding>(),
                     rotate =
                         std::make_shared<const Rotate>(workshop, dtype(0), dtype(1))](const KernelShapes& shapes) {
    std::vector<Dims> inputs;
    for (const OperandShape& input : shapes.inputs) inputs.push_back(input.dims);
    const ops::BoundRotaryEmbedding bound =
        ops::bind_rotary_embedding(op, inputs, shapes.outputs[0].dims, *shapes.symbols);
    const auto bytes = [&](size_t i, int64_t offset) { return offset * bit_width(shapes.inputs[i].dtype) / 8; };
    return function_launch([=, r = parameter(op, bound, shapes.outputs[0].pitch()), x_at = bytes(0, bound.x.offset),
                            cosine_at = bytes(1, bound.cosine.offset),
                            sine_at = bytes(2, bound.sine.offset)](const LaunchArguments& a, Queue& queue) mutable {
      if (r.items == 0) return;
      const std::byte *x = a.inputs[0] + x_at, *cosine = a.inputs[1] + cosine_at, *sine = a.inputs[2] + sine_at;
      std::byte* y = a.outputs[0];
      void* const arguments[] = {&r, &x, &cosine, &sine, &y};
      rotate->function.launch(queue.stream(),
                              {.blocks = blocks_for(r.items, threads_a_block), .threads = threads_a_block}, arguments);
    });
  };
  return device_kernel(make, {.sliced_output = true});
}

}  // namespace

const CudaTactic rotary_embedding_tactic{"cuda_rotary_embedding", estimate_rotary_embedding, compile_rotary_embedding};

}  // namespace camshaft::cuda
