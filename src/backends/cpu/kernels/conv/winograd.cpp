#include "backends/cpu/kernels/conv/winograd.h"

#include <algorithm>
#include <vector>

#include "backends/cpu/kernels/conv/winograd_transform.h"
#include "backends/cpu/kernels/gemm/product_sums.h"
#include "base/divide_up.h"
#include "base/error.h"
#include "base/thread_pool.h"

namespace camshaft::cpu {
namespace {

// Floats of transformed input and products that one block may have: they should stay in L2, of 1 MiB commonly, beside
// the weights and the image.
constexpr int64_t kBlockFloats = 128 * 1024;
// Fewer tiles than this use each load of the weights too little.
constexpr int64_t kLeastTiles = 48;

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
  bool shared;          // too few lines for even parts: all threads work on one block, phase by phase
  bool cuts_lines;      // where it is shared: into tiles

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
    const bool even = lines * 20 >= divide_up(lines, threads) * threads * 17;
    shared = threads > 1 && (lines < 4 * most_lines * threads || !even);
    cuts_lines = s.dilation_w == 1;  // the callback gets neighbours
    const int64_t share = shared ? lines : (lines + threads - 1) / threads;
    block_lines = std::min(share, shared ? most_lines * threads : most_lines);
    block_lines = std::max<int64_t>(1, block_lines);
  }
  int64_t block_tiles() const { return block_lines * tiles_across; }
  int64_t all_tiles() const { return lines * tiles_across; }
  int64_t block_floats() const { return points * block_tiles() * (in_row + out_row); }
};

// Tiles [x0, x1) of a line, and of them some channels.
struct LinePart {
  int64_t x0, x1, channel0, channel1;
};

class Run {
 public:
  Run(const WinogradWeights& weights, const ConvShape& s, const Sizes& sizes, const float* input, const float* packed,
      float* output, const Epilogue& e)
      : s_(s), sizes_(sizes), input_(input), packed_(packed), output_(output), e_(e), weights_(weights) {}

  // `first` is the block's first line, `line` one of its lines, `memory` the block's transformed data; of the line,
  // what `part` has.
  void transform_input(int64_t first, int64_t line, const LinePart& part, float* memory) const {
    for (int64_t x = part.x0; x < part.x1; ++x) {
      WinogradTile t = tile(first, line, x, memory);
      t.image += part.channel0;
      t.transformed += part.channel0;
      t.in_channels = part.channel1 - part.channel0;
      winograd_input(t);
    }
  }
  void transform_output(int64_t first, int64_t line, const LinePart& part, float* memory) const {
    const int64_t channels = part.channel1 - part.channel0;
    for (int64_t x = part.x0; x < part.x1; ++x) {
      WinogradTile t = tile(first, line, x, memory);
      t.product += part.channel0;
      t.output += part.channel0;
      t.out_channels = channels;
      if (t.bias) t.bias += part.channel0;
      if (t.residual) t.residual += part.channel0;
      if (t.addend) t.addend += part.channel0;
      winograd_output(t);
    }
    if (!e_.callback) return;
    const int64_t image = line / sizes_.lines_an_image, y = sizes_.vertical.origin(line % sizes_.lines_an_image);
    const int64_t rows = sizes_.vertical.inside(y, s_.out_h()), out_w = s_.out_w();
    const bool whole = part.x0 == 0 && part.x1 == sizes_.tiles_across;
    const int64_t left = whole ? 0 : sizes_.horizontal.origin(part.x0);
    const int64_t right = whole ? out_w : std::min(out_w, sizes_.horizontal.origin(part.x1 - 1) + weights_.tile);
    const int64_t at_once = whole && s_.dilation_h == 1 ? rows : 1;  // only neighbouring rows lie together
    for (int64_t i = 0; i < rows; i += at_once) {
      const int64_t row = image * s_.out_h() + y + i * s_.dilation_h;
      e_.callback(e_.context, row * out_w + left, (at_once - 1) * out_w + right - left, part.channel0, channels);
    }
  }
  // Some lines of a block that starts at line `first`, or tiles of them.
  template <class Transform>
  void for_each_part(const RowChannelShare& share, int64_t first, const Transform& transform) const {
    const int64_t across = sizes_.cuts_lines ? sizes_.tiles_across : 1;
    for (int64_t at = share.row0; at < share.row1;) {
      const int64_t line = at / across, x0 = at - line * across, count = std::min(across - x0, share.row1 - at);
      const LinePart part{x0, sizes_.cuts_lines ? x0 + count : sizes_.tiles_across, share.channel0, share.channel1};
      transform(first + line, part);
      at += count;
    }
  }
  CoreProblem product(int64_t point, int64_t tiles, float* memory) const {
    CoreProblem p;
    p.m = tiles;
    p.whole_m = sizes_.all_tiles();
    p.n = s_.out_channels;
    p.depth = s_.in_channels;
    p.rows.base = memory + point * sizes_.block_tiles() * sizes_.in_row;
    p.rows.row_stride = sizes_.in_row;
    p.packed_b = packed_ + point * weights_.matrix_stride();
    p.c = products(memory) + point * sizes_.block_tiles() * sizes_.out_row;
    p.ldc = sizes_.out_row;
    return p;
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

namespace {

// Of a block of so many lines where it is shared; else of all lines.
WinogradShares shares_of(const Sizes& sizes, const ConvShape& s, int64_t lines, int most) {
  const int64_t tiles = lines * sizes.tiles_across;
  WinogradShares shares;
  shares.is_shared = sizes.shared;
  if (!sizes.shared) {
    shares.input = shares.output = RowChannelShares(lines, 1, 0, most);
    return shares;
  }
  shares.products = core_product_shape(tiles, s.out_channels, 1, s.in_channels);
  shares.products.groups = sizes.points;
  // A transform takes some two cycles for a vector of a point.
  const auto of_transform = [&](int64_t channels) {
    const double cycles = static_cast<double>(2 * tiles * sizes.points) * static_cast<double>(channels) / 16;
    return RowChannelShares(sizes.cuts_lines ? tiles : lines, channels, 0, useful_threads(cycles, most));
  };
  shares.input = of_transform(s.in_channels);
  shares.output = of_transform(s.out_channels);
  return shares;
}

}  // namespace

WinogradShares winograd_shares(int64_t tile, const ConvShape& s, int most) {
  const Sizes sizes(s, tile, most);
  return shares_of(sizes, s, sizes.shared ? std::min(sizes.block_lines, sizes.lines) : sizes.lines, most);
}

int64_t winograd_workspace_bytes(int64_t tile, const ConvShape& s, int threads) {
  if (s.batch * s.out_h() * s.out_w() == 0) return 0;
  int64_t most = 0;
  for (int t = 1; t <= threads; ++t) {
    const Sizes sizes(s, tile, t);
    const int64_t blocks = sizes.shared ? 1 : t;
    most = std::max(most, core_workspace_bytes(sizes.block_tiles(), 1) * t + sizes.block_floats() * 4 * blocks);
  }
  return most;
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
      const int64_t lines = std::min(sizes.block_lines, sizes.lines - first), tiles = lines * sizes.tiles_across;
      const WinogradShares shares = shares_of(sizes, s, lines, threads);
      pool.run(shares.input.threads(), [&](int thread) {
        run.for_each_part(shares.input.share(thread), first,
                          [&](int64_t line, const LinePart& part) { run.transform_input(first, line, part, blocks); });
      });
      run_products(
          shares.products, [&](int64_t point, const auto& use) { use(run.product(point, tiles, blocks)); }, pool,
          scratch_memory, nullptr);
      pool.run(shares.output.threads(), [&](int thread) {
        run.for_each_part(shares.output.share(thread), first,
                          [&](int64_t line, const LinePart& part) { run.transform_output(first, line, part, blocks); });
      });
    }
    return;
  }
  const RowChannelShares shares = shares_of(sizes, s, sizes.lines, threads).input;
  pool.run(shares.threads(), [&](int thread) {
    float* block = blocks + thread * sizes.block_floats();
    const RowChannelShare own = shares.share(thread);
    const LinePart in{0, sizes.tiles_across, 0, s.in_channels}, out{0, sizes.tiles_across, 0, s.out_channels};
    for (int64_t first = own.row0; first < own.row1; first += sizes.block_lines) {
      const int64_t last = std::min(own.row1, first + sizes.block_lines);
      const int64_t tiles = (last - first) * sizes.tiles_across;
      for (int64_t line = first; line < last; ++line) run.transform_input(first, line, in, block);
      for (int64_t point = 0; point < sizes.points; ++point) {
        core_run(run.product(point, tiles, block), 0, tiles, 0, weights.layout.panels(),
                 scratch_memory + thread * scratch);
      }
      for (int64_t line = first; line < last; ++line) run.transform_output(first, line, out, block);
    }
  });
}

}  // namespace camshaft::cpu
