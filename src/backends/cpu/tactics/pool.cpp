#include "backends/cpu/tactics/pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "backends/cpu/kernels/reduce/reduce.h"
#include "backends/cpu/kernels/window/max_pool.h"
#include "backends/cpu/kernels/window/pool.h"
#include "backends/cpu/kernels/window/pool_indices.h"
#include "backends/cpu/kernels/with_type.h"
#include "backends/cpu/tactics/simple_kernel.h"
#include "backends/cpu/tactics/spatial_view.h"
#include "ir/ops/reduce.h"
#include "ir/ops/window_ops.h"

namespace camshaft::cpu {

namespace {

// The last of depth, height and width are the op's axes, of which the first is axis `first` of the shapes.
template <class Op, class Problem>
void fill_axes(const Op& op, const KernelShapes& shapes, size_t first, Problem& problem) {
  const Dims &in = shapes.inputs[0].dims, &out = shapes.outputs[0].dims;
  const size_t spatial = op.kernel.size();
  PoolAxis* axes[] = {&problem.depth, &problem.height, &problem.width};
  for (size_t i = 0; i < spatial; ++i)
    *axes[3 - spatial + i] = {in[first + i],
                              out[first + i],
                              op.kernel[i],
                              op.strides[i],
                              op.dilations[i],
                              pad_of(op.pads[i], *shapes.symbols),
                              pad_of(op.pads[spatial + i], *shapes.symbols)};
}

// Whether windows lie along an axis one behind the other from end to end: without pads, and none looks at another's.
bool windows_fill(const PoolAxis& a) {
  return a.pad_before == 0 && a.in == a.out * a.stride && (a.kernel - 1) * a.dilation < a.stride;
}

// Lines that windows along them fill one behind the other, without looking at other lines, are one: 16 x 64 of 32
// pixels by windows of 4 took 11 us, and take 3.
void join_lines(SpatialPool& pool) {
  // Pads of 1 and -1 leave as many lines, but not the same.
  const auto is_passed = [](const PoolAxis& a) {
    return a.kernel == 1 && a.in == a.out && a.stride == 1 && a.pad_before == 0 && a.pad_after == 0;
  };
  PoolAxis& w = pool.width;
  if (pool.channels_last || !is_passed(pool.depth) || !is_passed(pool.height) || !windows_fill(w)) return;
  const int64_t lines = pool.depth.in * pool.height.in;
  w.in *= lines;
  w.out *= lines;
  pool.depth = pool.height = PoolAxis{1, 1, 1, 1, 1, 0, 0};
}

// Neither do windows of short images that are one line each (join_lines()): averages of 2321 x 3 lines of 3 by windows
// of 3 took 33 us. Threads share lines, so these stay as short as a thread is woken for.
SpatialPool joined_planes(SpatialPool pool) {
  constexpr int64_t short_plane = 64, most_joined = 4096, most_taps = 32 * 1024;  // windows, and elements of them
  PoolAxis& w = pool.width;
  const int64_t planes = pool.batch * pool.channels;
  const bool is_line = pool.depth.in * pool.height.in == 1 && pool.depth.kernel * pool.height.kernel == 1 &&
                       pool.depth.out * pool.height.out == 1;
  if (pool.channels_last || !is_line || !windows_fill(w) || w.out == 0 || w.out >= short_plane || planes == 0)
    return pool;
  const int64_t taps_of_plane = w.out * std::max<int64_t>(1, w.kernel);
  int64_t together = std::max<int64_t>(1, std::min({planes, most_joined / w.out, most_taps / taps_of_plane}));
  while (planes % together != 0) --together;
  w.in *= together;
  w.out *= together;
  pool.batch = 1;
  pool.channels = planes / together;
  return pool;
}

// Maxima of integers over images that one window each sees whole: 278 of 5 x 5 bytes took 26 us, and take 2.2.
std::optional<Reduce> whole_images(const SpatialPool& pool, DType dtype) {
  int64_t size = 1;
  for (const PoolAxis* a : {&pool.depth, &pool.height, &pool.width}) {
    if (a->out != 1 || a->kernel != a->in || a->dilation != 1 || a->pad_before != 0) return std::nullopt;
    size *= a->in;
  }
  if (pool.channels_last || size == 0 || !is_integer(dtype)) return std::nullopt;
  Reduce reduce(ReduceKind::max, dtype, {pool.batch * pool.channels, size}, {1});
  if (reduce.workspace_bytes() > 0) return std::nullopt;
  return reduce;
}

std::optional<double> estimate_pool(const RegionView& region) {
  const auto* op = region.node.op.as<ops::Pool>();
  if (!op || region.graph.type(region.node.inputs[0]).dtype != DType::f32 || op->kernel.size() > 3 ||
      op->kernel.empty())
    return std::nullopt;
  return seconds_per_launch + 2 * bytes_at_optimum(region) * seconds_per_byte;
}

std::shared_ptr<const Kernel> compile_pool(const RegionView& region, PackedConstants&) {
  const auto make = [op = *region.node.op.as<ops::Pool>()](const KernelShapes& shapes) {
    return [pool = joined_planes(spatial_pool(op, shapes))](const LaunchArguments& a) {
      pool.run(a.pool, input<float>(a, 0), output<float>(a, 0));
    };
  };
  const bool pixels = region.node.op.as<ops::Pool>()->channels_last;
  return simple_kernel(make, false, SliceUse{pixels ? size_t{1} : 0, pixels});
}

// Of f32 pool_tactic has it, with averages.
std::optional<double> estimate_max_pool(const RegionView& region) {
  const auto* op = region.node.op.as<ops::Pool>();
  if (!op || op->kind != ops::PoolKind::max || op->kernel.size() > 3 || op->kernel.empty()) return std::nullopt;
  const DType dtype = region.graph.type(region.node.inputs[0]).dtype;
  if (dtype == DType::f32 || !is_arithmetic(dtype)) return std::nullopt;
  return seconds_per_launch + 2 * bytes_at_optimum(region) * seconds_per_byte;
}

std::shared_ptr<const Kernel> compile_max_pool(const RegionView& region, PackedConstants&) {
  const auto make = [op = *region.node.op.as<ops::Pool>()](const KernelShapes& shapes) {
    const SpatialPool pool = spatial_pool(op, shapes);
    const DType dtype = shapes.inputs[0].dtype;
    return [problem = joined_planes(pool), whole = whole_images(pool, dtype), dtype](const LaunchArguments& a) {
      if (!whole) return max_pool(problem, dtype, a.inputs[0], a.outputs[0], a.pool);
      whole->run(a.pool, {.in = a.inputs[0], .out = a.outputs[0]});
    };
  };
  const bool pixels = region.node.op.as<ops::Pool>()->channels_last;
  return simple_kernel(make, false, SliceUse{pixels ? size_t{1} : 0, pixels});
}

std::optional<double> estimate_pool_indices(const RegionView& region) {
  const auto* op = region.node.op.as<ops::MaxPoolIndices>();
  if (!op || !is_arithmetic(region.graph.type(region.node.inputs[0]).dtype) || op->kernel.size() > 3 ||
      op->kernel.empty())
    return std::nullopt;
  return seconds_per_launch + 4 * bytes_at_optimum(region) * seconds_per_byte;
}

std::shared_ptr<const Kernel> compile_pool_indices(const RegionView& region, PackedConstants&) {
  return simple_kernel([op = *region.node.op.as<ops::MaxPoolIndices>()](const KernelShapes& shapes) {
    const Dims& in = shapes.inputs[0].dims;
    PoolIndices pool;
    pool.planes = in[0] * in[1];
    fill_axes(op, shapes, 2, pool);
    pool.column_major = op.column_major;
    if (pool.depth.in * pool.height.in * pool.width.in > std::numeric_limits<int32_t>::max())
      throw Error(ErrorCode::unsupported, fmt::format("an image of shape {} is too large to be pooled", to_string(in)));
    return [pool, dtype = shapes.inputs[0].dtype](const LaunchArguments& a) {
      pool.run(a.pool, dtype, a.inputs[0], output<int64_t>(a, 0));
    };
  });
}

}  // namespace

SpatialPool spatial_pool(const ops::Pool& op, const KernelShapes& shapes) {
  const Dims& in = shapes.inputs[0].dims;
  SpatialPool pool;
  pool.batch = in[0];
  pool.channels = op.channels_last ? in.back() : in[1];
  fill_axes(op, shapes, op.channels_last ? 1 : 2, pool);
  pool.channels_last = op.channels_last;
  pool.in_pixel_stride = shapes.inputs[0].row_stride;
  pool.out_pixel_stride = shapes.outputs[0].row_stride;
  pool.average = op.kind == ops::PoolKind::average;
  pool.count_include_pad = op.count_include_pad;
  join_lines(pool);
  return pool;
}

const CpuTactic pool_tactic{"pool", estimate_pool, compile_pool};
const CpuTactic max_pool_tactic{"max_pool", estimate_max_pool, compile_max_pool};
const CpuTactic pool_indices_tactic{"pool_indices", estimate_pool_indices, compile_pool_indices};

}  // namespace camshaft::cpu
