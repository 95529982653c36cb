#include "backends/cpu/kernels/conv/winograd.h"

#include <algorithm>
#include <vector>

#include "backends/cpu/kernels/conv/winograd_transform.h"
#include "backends/cpu/kernels/gemm/gemm_core.h"
#include "base/error.h"
#include "base/thread_pool.h"

namespace camshaft::cpu {
namespace {

// Floats of transformed input and products that one block may have: they should stay in L2, of 1 MiB commonly, beside
// the weights and the image.
constexpr int64_t kBlockFloats = 128 * 1024;
// Fewer tiles than this use each load of the weights too little.
constexpr int64_t kLeastTiles = 48;

// G of F(4x4, 3x3) for the points 0, +-sqrt(1/2), +-sqrt(2), infinity, in that order: row p is (1, p, p^2) over the
// product of p's distances to the other points.
constexpr double kRoot = 1.4142135623730951;
constexpr double kWeights4[6][3] = {{1, 0, 0},
                                    {-2.0 / 3, -kRoot / 3, -1.0 / 3},
                                    {-2.0 / 3, kRoot / 3, -1.0 / 3},
                                    {1.0 / 6, kRoot / 6, 1.0 / 3},
                                    {1.0 / 6, -kRoot / 6, 1.0 / 3},
                                    {0, 0, 1}};
// G of F(2x2, 3x3) for 0, 1, -1, infinity.
constexpr double kWeights2[4][3] = {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};

// Rows of the transformed matrices: whole vectors, and never a multiple of half a page apart.
int64_t row_floats(int64_t channels) {
  const int64_t rounded = (channels + 15) / 16 * 16;
  return rounded % 512 == 0 ? rounded + 16 : rounded;
}

// Every `step`-th pixel of an axis, from `first` on: what a dilated convolution sees is so many plain ones side by
// side.
struct Phases {
  int64_t step, count, tile;
  int64_t tiles;  // of each phase; the last ones' may lie outside the image

  Phases(int64_t out_size, int64_t dilation, int64_t tile_size)
      : step(dilation),
        count(std::min(dilation, out_size)),
        tile(tile_size),
        tiles(((out_size + dilation - 1) / dilation + tile - 1) / tile) {}
  int64_t all_tiles() const { return count * tiles; }
  // The first output pixel of tile i of all.
  int64_t origin(int64_t i) const { return i / tiles + i % tiles * tile * step; }
  // Outputs of the tile from there inside the image.
  int64_t inside(int64_t origin, int64_t out_size) const {
    return std::clamp<int64_t>((out_size - origin + step - 1) / step, 0, tile);
  }
};

// Pixels top, top + step, top + 2 step... of an axis of `size`, counted in steps: the image begins `before` of them
// after the first one, and has `size` of them from there.
struct SteppedAxis {
  int64_t before, size;

  SteppedAxis(int64_t top, int64_t step, int64_t whole) {
    before = ceiling(-top, step);
    size = ceiling(whole - top, step) - before;
  }
  static int64_t ceiling(int64_t a, int64_t b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); }
};

// Everything about one call that the steps of the algorithm share. A line is a row of tiles: `tile` rows of the
// image, the dilation apart.
struct Sizes {
  int64_t points;
  Phases vertical, horizontal;
  int64_t tiles_across, lines_an_image, lines;
  int64_t in_row, out_row;
  int64_t block_lines;  // lines that are transformed together
  bool shared;          // too few lines for a part each: all threads work on one block, phase by phase

  Sizes(const ConvShape& s, int64_t tile, int threads)
      : points((tile + 2) * (tile + 2)),
        vertical(s.out_h(), s.dilation_h, tile),
        horizontal(s.out_w(), s.dilation_w, tile) {
    tiles_across = horizontal.all_tiles();
    lines_an_image = vertical.all_tiles();
    lines = s.batch * lines_an_image;
    in_row = row_floats(s.in_channels);
    out_row = row_floats(s.out_channels);
    const int64_t tiles = std::max(kLeastTiles, kBlockFloats / (points * (in_row + out_row)));
    const int64_t most_lines = std::max<int64_t>(1, (tiles + tiles_across / 2) / std::max<int64_t>(1, tiles_across));
    shared = threads > 1 && lines < 4 * most_lines * threads;
    const int64_t share = shared ? lines : (lines + threads - 1) / threads;
    block_lines = std::min(share, shared ? most_lines * threads : most_lines);
    block_lines = std::max<int64_t>(1, block_lines);
  }
  int64_t block_tiles() const { return block_lines * tiles_across; }
  int64_t block_floats() const { return points * block_tiles() * (in_row + out_row); }
};

class Run {
 public:
  Run(const WinogradWeights& weights, const ConvShape& s, const Sizes& sizes, const float* input, const float* packed,
      float* output, const Epilogue& e)
      : s_(s), sizes_(sizes), input_(input), packed_(packed), output_(output), e_(e), weights_(weights) {}

  // `first` is the block's first line, `line` one of its lines, `memory` the block's transformed data.
  void transform_input(int64_t first, int64_t line, float* memory) const {
    for (int64_t x = 0; x < sizes_.tiles_across; ++x) {
      winograd_input(tile(first, line, x, memory));
    }
  }
  void transform_output(int64_t first, int64_t line, float* memory) const {
    for (int64_t x = 0; x < sizes_.tiles_across; ++x) winograd_output(tile(first, line, x, memory));
    if (!e_.callback) return;
    const int64_t image = line / sizes_.lines_an_image, y = sizes_.vertical.origin(line % sizes_.lines_an_image);
    const int64_t rows = sizes_.vertical.inside(y, s_.out_h());
    const int64_t at_once = s_.dilation_h == 1 ? rows : 1;  // only neighbouring rows lie together
    for (int64_t i = 0; i < rows; i += at_once) {
      const int64_t row = image * s_.out_h() + y + i * s_.dilation_h;
      e_.callback(e_.context, row * s_.out_w(), at_once * s_.out_w(), 0, s_.out_channels);
    }
  }
  void multiply(int64_t point, int64_t lines, float* memory, void* scratch) const {
    const int64_t tiles = lines * sizes_.tiles_across;
    CoreProblem p;
    p.m = tiles;
    p.n = s_.out_channels;
    p.depth = s_.in_channels;
    p.rows.base = memory + point * sizes_.block_tiles() * sizes_.in_row;
    p.rows.row_stride = sizes_.in_row;
    p.packed_b = packed_ + point * weights_.matrix_stride();
    p.c = products(memory) + point * sizes_.block_tiles() * sizes_.out_row;
    p.ldc = sizes_.out_row;
    core_run(p, 0, tiles, 0, weights_.layout.panels(), scratch);
  }

 private:
  float* products(float* memory) const { return memory + sizes_.points * sizes_.block_tiles() * sizes_.in_row; }

  WinogradTile tile(int64_t first, int64_t line, int64_t x, float* memory) const {
    const int64_t in_step = s_.in_pixel_stride ? s_.in_pixel_stride : s_.in_channels;
    const int64_t out_step = s_.out_pixel_stride ? s_.out_pixel_stride : s_.out_channels;
    const int64_t image = line / sizes_.lines_an_image, y = sizes_.vertical.origin(line % sizes_.lines_an_image);
    const int64_t left_output = sizes_.horizontal.origin(x);
    const int64_t top = y - s_.pad_top, left = left_output - s_.pad_left;
    const SteppedAxis rows(top, s_.dilation_h, s_.in_h), columns(left, s_.dilation_w, s_.in_w);
    const int64_t index = (line - first) * sizes_.tiles_across + x;
    WinogradTile t;
    t.size = weights_.tile;
    t.top = -rows.before;
    t.left = -columns.before;
    t.in_h = rows.size;
    t.in_w = columns.size;
    t.line_step = s_.in_w * in_step * s_.dilation_h;
    t.pixel_step = in_step * s_.dilation_w;
    t.image = input_ + ((image * s_.in_h + top) * s_.in_w + left) * in_step;
    t.in_channels = s_.in_channels;
    t.transformed = memory + index * sizes_.in_row;
    t.in_point_step = sizes_.block_tiles() * sizes_.in_row;
    t.product = products(memory) + index * sizes_.out_row;
    t.out_point_step = sizes_.block_tiles() * sizes_.out_row;
    const int64_t pixel = (image * s_.out_h() + y) * s_.out_w() + left_output;
    t.output = output_ + pixel * out_step;
    t.out_line_step = s_.out_w() * out_step * s_.dilation_h;
    t.out_pixel_step = out_step * s_.dilation_w;
    t.rows = sizes_.vertical.inside(y, s_.out_h());
    t.columns = sizes_.horizontal.inside(left_output, s_.out_w());
    t.out_channels = s_.out_channels;
    t.bias = e_.bias;
    t.residual = e_.residual ? e_.residual + pixel * e_.residual_ld : nullptr;
    t.residual_line_step = s_.out_w() * e_.residual_ld * s_.dilation_h;
    t.residual_pixel_step = e_.residual_ld * s_.dilation_w;
    t.lo = e_.lo;
    t.hi = e_.hi;
    t.activation = e_.activation;
    t.addend = e_.addend ? e_.addend + pixel * e_.addend_ld : nullptr;
    t.addend_line_step = s_.out_w() * e_.addend_ld * s_.dilation_h;
    t.addend_pixel_step = e_.addend_ld * s_.dilation_w;
    return t;
  }

  const ConvShape& s_;
  const Sizes& sizes_;
  const float* input_;
  const float* packed_;
  float* output_;
  const Epilogue& e_;
  const WinogradWeights& weights_;
};

}  // namespace

WinogradWeights winograd_weights(int64_t tile, int64_t out_channels, int64_t in_channels) {
  return {tile, out_channels, in_channels, packed_layout(in_channels, out_channels)};
}

void pack_winograd_weights(const WinogradWeights& w, const float* oihw, float* packed) {
  std::vector<float> matrix(static_cast<size_t>(w.out_channels * w.in_channels));
  const double(*transform)[3] = w.tile == 4 ? kWeights4 : kWeights2;
  for (int64_t point = 0; point < w.points(); ++point) {
    const double* vertical = transform[point / (w.tile + 2)];
    const double* horizontal = transform[point % (w.tile + 2)];
    for (int64_t i = 0; i < w.out_channels * w.in_channels; ++i) {
      double sum = 0;
      for (int y = 0; y < 3; ++y) {
        for (int x = 0; x < 3; ++x) sum += vertical[y] * horizontal[x] * oihw[i * 9 + y * 3 + x];
      }
      matrix[static_cast<size_t>(i)] = static_cast<float>(sum);
    }
    pack_b(w.layout, matrix.data(), 1, w.in_channels, packed + point * w.matrix_stride());
  }
}

double winograd_waste(int64_t tile, int64_t out_h, int64_t out_w, int64_t dilation_h, int64_t dilation_w) {
  if (out_h <= 0 || out_w <= 0) return 1;
  const double tiles = static_cast<double>(Phases(out_h, dilation_h, tile).all_tiles()) *
                       static_cast<double>(Phases(out_w, dilation_w, tile).all_tiles());
  return tiles * static_cast<double>(tile * tile) / (static_cast<double>(out_h) * static_cast<double>(out_w));
}

bool winograd_supports(const ConvShape& s) {
  return s.kernel_h == 3 && s.kernel_w == 3 && s.stride_h == 1 && s.stride_w == 1 && s.groups == 1 &&
         s.in_channels > 0 && s.out_channels > 0;
}

int64_t winograd_workspace_bytes(int64_t tile, const ConvShape& s, int threads) {
  if (s.batch * s.out_h() * s.out_w() == 0) return 0;
  const Sizes sizes(s, tile, threads);
  const int64_t blocks = sizes.shared ? 1 : threads;
  return core_workspace_bytes(sizes.block_tiles(), 1) * threads + sizes.block_floats() * 4 * blocks;
}

void winograd(const WinogradWeights& weights, const ConvShape& s, const float* input, const float* packed,
              float* output, const Epilogue& epilogue, ThreadPool& pool, void* workspace) {
  if (!winograd_supports(s)) {
    throw Error(ErrorCode::unsupported, "Winograd convolution needs a 3x3 kernel, stride 1 and one group");
  }
  if (s.batch * s.out_h() * s.out_w() == 0) return;
  const int threads = pool.size();
  const Sizes sizes(s, weights.tile, threads);
  const Run run(weights, s, sizes, input, packed, output, epilogue);
  const int64_t scratch = core_workspace_bytes(sizes.block_tiles(), 1);
  char* scratch_memory = static_cast<char*>(workspace);
  float* blocks = reinterpret_cast<float*>(scratch_memory + scratch * threads);

  if (sizes.shared) {
    for (int64_t first = 0; first < sizes.lines; first += sizes.block_lines) {
      const int64_t lines = std::min(sizes.block_lines, sizes.lines - first);
      pool.parallel_for(lines, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) run.transform_input(first, first + i, blocks);
      });
      pool.run([&](int thread) {
        for (int64_t point = sizes.points * thread / threads; point < sizes.points * (thread + 1) / threads; ++point) {
          run.multiply(point, lines, blocks, scratch_memory + thread * scratch);
        }
      });
      pool.parallel_for(lines, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) run.transform_output(first, first + i, blocks);
      });
    }
    return;
  }
  pool.run([&](int thread) {
    float* block = blocks + thread * sizes.block_floats();
    const int64_t end = sizes.lines * (thread + 1) / threads;
    for (int64_t first = sizes.lines * thread / threads; first < end; first += sizes.block_lines) {
      const int64_t last = std::min(end, first + sizes.block_lines);
      for (int64_t line = first; line < last; ++line) run.transform_input(first, line, block);
      for (int64_t point = 0; point < sizes.points; ++point) {
        run.multiply(point, last - first, block, scratch_memory + thread * scratch);
      }
      for (int64_t line = first; line < last; ++line) run.transform_output(first, line, block);
    }
  });
}

}  // namespace camshaft::cpu
