#include "cuda/tile_choice.h"

#include <algorithm>
#include <cmath>

#include "camshaft/dtype.h"
#include "cuda/tactic.h"

namespace camshaft::cuda {

namespace {

constexpr ContractTile tensor_tiles[] = {{128, 128, 2, 4, 1, 4}, {128, 64, 4, 2, 1, 4}, {64, 128, 2, 4, 1, 4},
                                         {64, 64, 2, 2, 2, 4},   {64, 32, 4, 1, 2, 4},  {32, 64, 2, 2, 2, 4},
                                         {32, 32, 2, 1, 4, 4},   {16, 64, 1, 2, 2, 6}};
constexpr ContractTile plain_tiles[] = {
    {128, 128, 2, 4, 1, 3}, {128, 64, 2, 4, 1, 3}, {64, 64, 2, 4, 1, 4}, {32, 64, 2, 2, 1, 4}, {32, 32, 2, 2, 1, 4}};

// Clock cycles, from the instructions that a slice takes and from Hopper's rates.
constexpr double cycles_per_second = 1.7e9;
constexpr double slice_latency = 350;       // of copies and dependent matrix instructions that a ring does not hide
constexpr double start = 1800;              // of a block: its first slices, and its sums' way out
constexpr double l2_bytes_per_cycle = 40;   // of one multiprocessor
constexpr double reduction = 1500;          // of the last block of a split tile, …
constexpr double cluster_reduction = 1200;  // … and of all where they are a cluster, …
constexpr double cluster_part = 200;        // … for each of its blocks

}  // namespace

TileChoice choose_splits(const ContractForm& form, const ContractTile& tile, const ContractSize& size,
                         const DeviceFacts& device) {
  const int bk = 128 * 8 / bit_width(form.dtype);
  const double k_tiles = std::max(1.0, std::ceil(size.k / bk));
  const double tiles = std::max(1.0, std::ceil(size.m / tile.m) * std::ceil(size.n / tile.n) * size.batch);
  // Multiply-adds of one multiprocessor in a cycle: mma.sync reaches some 60 % of what Hopper's wgmma does.
  const double rate = !form.tensor_cores ? 90 : form.dtype == DType::f32 ? 600 : 1200;
  const double resident =
      std::max(1.0, std::floor(std::min(static_cast<double>(device.shared_bytes_per_block) / tile.shared_bytes(),
                                        std::min(16.0, 1024.0 / tile.threads()))));
  TileChoice best{tile, 1, 1e9};
  for (int splits = 1; splits <= 32 && splits <= k_tiles; splits *= 2) {
    const double per_split = std::ceil(k_tiles / splits);
    const double blocks = tiles * splits;
    const double beside = std::min(resident, std::max(1.0, blocks / device.multiprocessors));
    const double slice = std::max(
        {slice_latency, beside * tile.m * tile.n * bk / rate, beside * (tile.m + tile.n) * 128 / l2_bytes_per_cycle});
    const double waves = std::ceil(blocks / (std::ceil(beside) * device.multiprocessors));
    double cycles = waves * (start + per_split * slice + beside * tile.m * tile.n * 4 / l2_bytes_per_cycle);
    const bool is_cluster = splits <= 8 && device.capability >= 90;
    if (splits > 1)
      cycles += is_cluster ? cluster_reduction + splits * cluster_part
                           : reduction + splits * tile.m * tile.n * 4 / l2_bytes_per_cycle;
    const double seconds = seconds_per_launch + cycles / cycles_per_second;
    if (seconds < best.seconds * 0.97) best = {tile, splits, seconds};
  }
  return best;
}

std::span<const ContractTile> contract_tiles(const ContractForm& form) {
  if (form.tensor_cores) return tensor_tiles;
  return plain_tiles;
}

std::optional<TileChoice> choose_tile(const ContractForm& form, const ContractSize& size, const DeviceFacts& device) {
  std::optional<TileChoice> best;
  for (const ContractTile& tile : contract_tiles(form)) {
    if (tile.shared_bytes() > device.shared_bytes_per_block) continue;
    if (form.b_by_columns && tile.n < 64) continue;  // panels of 64 columns
    const TileChoice choice = choose_splits(form, tile, size, device);
    if (!best || choice.seconds < best->seconds * 0.99) best = choice;
  }
  return best;
}

}  // namespace camshaft::cuda
