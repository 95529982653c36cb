#include "backends/cuda/tactics/strided_copy.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "backends/cuda/codegen/move_text.h"
#include "backends/cuda/device/copy_parameters.h"
#include "backends/cuda/tactics/narrow.h"
#include "backends/cuda/tactics/space.h"

namespace camshaft::cuda {

namespace {

template <class T>
std::vector<std::byte> bytes_of(const T& parameter) {
  std::vector<std::byte> bytes(sizeof parameter);
  std::memcpy(bytes.data(), &parameter, sizeof parameter);
  return bytes;
}

/// The nest over elements that are `times` of its elements side by side.
ops::LoopNest widened(ops::LoopNest nest, int64_t times) {
  nest.sizes.back() /= times;
  for (Dims& strides : nest.strides) {
    for (int64_t& stride : strides) stride /= times;
    strides.back() = 1;
  }
  return ops::collapse(nest.sizes, nest.strides);
}

}  // namespace

size_t log_of(int64_t width) {
  return static_cast<size_t>(std::countr_zero(static_cast<uint64_t>(width)));
}

CopyKernels::CopyKernels(const Workshop& workshop) : device(workshop.device()) {
  const Module module = workshop.module("copy", copy_text());
  for (size_t i = 0; i < copy.size(); ++i) {
    copy[i] = module.function(fmt::format("copy_{}", 1 << i));
    tile[i] = module.function(fmt::format("tile_{}", 1 << i));
  }
  for (size_t i = 0; i < gather.size(); ++i) gather[i] = module.function(fmt::format("gather_{}", 1 << i));
  for (size_t i = 0; i < packed_tile.size(); ++i)
    packed_tile[i] = module.function(fmt::format("packed_tile_{}", 1 << i));
}

void check_elements(int64_t elements, const char* what) {
  if (elements > most_elements)
    throw Error(
        ErrorCode::unsupported,
        fmt::format("{} of {} elements is too large for the GPU, which takes 2^31; split the batch", what, elements));
}

unsigned blocks_for(int64_t items, unsigned threads_a_block) {
  constexpr int64_t most_blocks = 1 << 16;
  return narrow(std::clamp<int64_t>((items + threads_a_block - 1) / threads_a_block, 1, most_blocks));
}

int64_t chunk_elements(const ops::LoopNest& nest, int64_t most) {
  int64_t count = most;
  const auto fit = [&](int64_t number) {
    while (number % count != 0) count /= 2;
  };
  fit(nest.sizes.back());
  for (const Dims& strides : nest.strides) {
    if (strides.back() != 1 && nest.sizes.back() != 1) return 1;
    for (size_t d = 0; d + 1 < strides.size(); ++d) fit(strides[d]);
  }
  return count;
}

StridedCopy::StridedCopy(std::shared_ptr<const CopyKernels> kernels, int64_t width, const StridedMove& move)
    : kernels_(std::move(kernels)), width_(width), start_(move.start * width) {
  const int64_t elements = element_count(move.dims);
  if (elements == 0) return;
  check_elements(elements, "a copy");
  const ops::LoopNest nest = ops::collapse(move.dims, {move.in, move.out});
  for (int64_t times = chunk_elements(nest, 16 / width); times > 1; times /= 2)
    add_ways(widened(nest, times), width * times);
  add_gather(nest);
  add_ways(nest, width);
}

void StridedCopy::add_ways(const ops::LoopNest& nest, int64_t width) {
  if (add_tiles(nest, width)) return;
  const auto alignment = static_cast<uintptr_t>(width);
  ways_.push_back({&kernels_->copy[log_of(width)], space_parameter(nest, 1), blocks_for(nest.total(), threads_a_block),
                   alignment, alignment});
}

bool StridedCopy::add_tiles(const ops::LoopNest& nest, int64_t width) {
  // Below this, lines of a square are mostly empty, and single elements meet in a cache line anyway.
  constexpr int64_t least = 8;
  const size_t b = nest.sizes.size() - 1;
  const Dims &in = nest.strides[0], &out = nest.strides[1];
  size_t a = b;
  for (size_t d = 0; d < b; ++d)
    if (in[d] == 1 && nest.sizes[d] >= least) a = d;
  if (a == b || out[b] != 1 || in[b] == 0 || in[b] == 1 || nest.sizes[b] < least) return false;
  const int64_t edge = width < 4 ? 64 : 32;
  const int64_t tiles_a = (nest.sizes[a] + edge - 1) / edge, tiles_b = (nest.sizes[b] + edge - 1) / edge;
  TransposeParameters tiles;
  tiles.size_a = narrow(nest.sizes[a]);
  tiles.size_b = narrow(nest.sizes[b]);
  tiles.tiles_a = Divisor(narrow(tiles_a));
  tiles.tiles_b = Divisor(narrow(tiles_b));
  tiles.in_b = in[b];
  tiles.out_a = out[a];
  int64_t blocks = tiles_a * tiles_b;
  // Whether pairs or quadruples of narrow elements lie side by side on both sides.
  const int64_t packed = width < 4 ? 4 / width : 1;
  bool can_be_packed = width < 4 && nest.sizes[a] % packed == 0 && nest.sizes[b] % packed == 0 && in[b] % packed == 0 &&
                       out[a] % packed == 0;
  for (size_t d = 0; d < b; ++d) {
    if (d == a) continue;
    tiles.size[tiles.rank] = Divisor(narrow(nest.sizes[d]));
    tiles.in[tiles.rank] = in[d];
    tiles.out[tiles.rank] = out[d];
    ++tiles.rank;
    blocks *= nest.sizes[d];
    can_be_packed = can_be_packed && in[d] % packed == 0 && out[d] % packed == 0;
  }
  const std::vector<std::byte> parameter = bytes_of(tiles);
  const auto count = narrow(blocks);
  if (can_be_packed) ways_.push_back({&kernels_->packed_tile[log_of(width)], parameter, count, 4, 4});
  const auto alignment = static_cast<uintptr_t>(width);
  ways_.push_back({&kernels_->tile[log_of(width)], parameter, count, alignment, alignment});
  return true;
}

void StridedCopy::add_gather(const ops::LoopNest& nest) {
  const int64_t count = 16 / width_, stride = nest.strides[0].back();
  const Dims& out = nest.strides[1];
  // Neighbours of 4 bytes and more fill a cache line with few loads.
  if (stride != 0 && !(stride == 1 && width_ < 4)) return;
  if (count == 1 || out.back() != 1 || nest.sizes.back() % count != 0) return;
  for (size_t d = 0; d + 1 < out.size(); ++d)
    if (out[d] % count != 0) return;
  ways_.push_back({&kernels_->gather[log_of(width_)], space_parameter(nest, static_cast<int>(count)),
                   blocks_for(nest.total() / count, threads_a_block), static_cast<uintptr_t>(width_), 16});
}

void StridedCopy::run(const Stream& stream, const std::byte* in, std::byte* out) const {
  if (ways_.empty()) return;
  in += start_;
  // Memory that the caller binds may begin anywhere.
  const auto fits = [&](const Way& way) {
    return reinterpret_cast<uintptr_t>(in) % way.in_alignment == 0 &&
           reinterpret_cast<uintptr_t>(out) % way.out_alignment == 0;
  };
  const auto way = std::find_if(ways_.begin(), ways_.end() - 1, fits);
  void* const arguments[] = {const_cast<std::byte*>(way->parameter.data()), &in, &out};
  way->function->launch(stream, {.blocks = way->blocks, .threads = threads_a_block}, arguments);
}

}  // namespace camshaft::cuda
