#include "cuda/tile_choice.h"

#include <algorithm>
#include <cmath>

#include "camshaft/dtype.h"
#include "cuda/tactic.h"

namespace camshaft::cuda {

namespace {

constexpr ContractTile tensor_tiles[] = {
    {128, 128, 2, 4, 1, 4}, {128, 64, 4, 2, 1, 4}, {64, 128, 2, 4, 1, 4}, {64, 64, 2, 2, 2, 4}, {64, 64, 2, 2, 1, 4},
    {64, 32, 4, 1, 2, 4},   {32, 64, 2, 2, 2, 4},  {32, 64, 2, 2, 1, 6},  {32, 32, 2, 1, 4, 4}, {16, 64, 1, 2, 2, 6}};
// By warpgroups: f16 and bf16 on compute capability 9.0.
constexpr ContractTile warpgroup_tiles[] = {{128, 256, 8, 1, 1, 4, true}, {256, 128, 8, 1, 1, 4, true},
                                            {128, 128, 8, 1, 1, 3, true}, {128, 64, 8, 1, 1, 3, true},
                                            {128, 64, 8, 1, 1, 4, true},  {64, 128, 4, 1, 1, 3, true},
                                            {64, 64, 4, 1, 1, 3, true}};
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

int k_tiles_of(const ContractForm& form, const ContractSize& size) {
  constexpr double most = 1 << 30;
  return static_cast<int>(std::clamp(std::ceil(size.k / (128.0 * 8 / bit_width(form.dtype))), 1.0, most));
}

// Into how many parts k can be split so that these are about as long, few first.
std::vector<int> useful_splits(int k_tiles) {
  std::vector<int> list;
  for (const int wanted : {1, 2, 3, 4, 6, 8, 12, 16, 24, 32}) {
    const int each = (k_tiles + wanted - 1) / wanted, splits = (k_tiles + each - 1) / each;
    if (list.empty() || splits > list.back()) list.push_back(splits);
  }
  return list;
}

double seconds_of(const ContractForm& form, const ContractTile& tile, int splits, const ContractSize& size,
                  const DeviceFacts& device) {
  const int bk = 128 * 8 / bit_width(form.dtype);
  const double per_split = std::ceil(static_cast<double>(k_tiles_of(form, size)) / splits);
  const double tiles = std::max(1.0, std::ceil(size.m / tile.m) * std::ceil(size.n / tile.n) * size.batch);
  // Multiply-adds of one multiprocessor in a cycle: mma.sync reaches some 60 % of what Hopper's wgmma does.
  const double rate = !form.tensor_cores ? 90 : form.dtype == DType::f32 ? 600 : tile.by_warpgroups ? 1700 : 1200;
  const double resident =
      std::max(1.0, std::floor(std::min(static_cast<double>(device.shared_bytes_per_block) / tile.shared_bytes(),
                                        std::min(16.0, 1024.0 / tile.threads()))));
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
  return seconds_per_launch + cycles / cycles_per_second;
}

}  // namespace

TacticParameters TileChoice::parameters() const {
  return {{"m", tile.m},
          {"n", tile.n},
          {"warps", tile.threads() / 32},
          {"stages", tile.stages},
          {"wgmma", tile.by_warpgroups},
          {"splits", splits}};
}

std::vector<ContractTile> contract_tiles(const ContractForm& form, int capability) {
  if (!form.tensor_cores) return {std::begin(plain_tiles), std::end(plain_tiles)};
  std::vector<ContractTile> tiles(std::begin(tensor_tiles), std::end(tensor_tiles));
  if (capability >= 90 && capability < 100 && bit_width(form.dtype) == 16)
    tiles.insert(tiles.end(), std::begin(warpgroup_tiles), std::end(warpgroup_tiles));
  return tiles;
}

std::vector<TileChoice> tile_choices(const ContractForm& form, const ContractSize& size, const DeviceFacts& device) {
  std::vector<TileChoice> list;
  for (const ContractTile& tile : contract_tiles(form, device.capability)) {
    if (tile.shared_bytes() > device.shared_bytes_per_block) continue;
    if (form.b_by_columns && tile.n < 64) continue;  // panels of 64 columns
    for (const int splits : useful_splits(k_tiles_of(form, size)))
      list.push_back({tile, splits, seconds_of(form, tile, splits, size, device)});
  }
  std::stable_sort(list.begin(), list.end(),
                   [](const TileChoice& a, const TileChoice& b) { return a.seconds < b.seconds; });
  return list;
}

TileChoice choose_splits(const ContractForm& form, const ContractTile& tile, const ContractSize& size,
                         const DeviceFacts& device) {
  TileChoice best{tile, 1, 0};
  for (const int splits : useful_splits(k_tiles_of(form, size))) {
    const double seconds = seconds_of(form, tile, splits, size, device);
    if (splits == 1 || seconds < best.seconds) best = {tile, splits, seconds};
  }
  return best;
}

}  // namespace camshaft::cuda
