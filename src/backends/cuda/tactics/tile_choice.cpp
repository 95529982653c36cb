#include "backends/cuda/tactics/tile_choice.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "backends/cuda/tactic.h"
#include "base/dtype.h"

namespace camshaft::cuda {

namespace {

constexpr ContractTile tensor_tiles[] = {
    {128, 128, 2, 4, 1, 4}, {128, 64, 4, 2, 1, 4}, {64, 128, 2, 4, 1, 4}, {64, 64, 2, 2, 2, 4}, {64, 64, 2, 2, 1, 4},
    {128, 32, 4, 1, 1, 4},  {32, 128, 1, 4, 1, 4}, {64, 32, 4, 1, 2, 4},  {32, 64, 2, 2, 2, 4}, {32, 64, 2, 2, 1, 6},
    {32, 32, 2, 1, 4, 4},   {16, 128, 1, 4, 1, 4}, {16, 64, 1, 2, 2, 6},  {16, 32, 1, 1, 4, 6}};
// By warpgroups: f16, bf16 and bytes, where there are DeviceFeatures::warpgroup_products.
constexpr ContractTile warpgroup_tiles[] = {{128, 256, 8, 1, 1, 4, true},
                                            {256, 128, 8, 1, 1, 4, true},
                                            {128, 128, 8, 1, 1, 3, true},
                                            {128, 64, 8, 1, 1, 3, true},
                                            {128, 64, 8, 1, 1, 4, true},
                                            {64, 128, 4, 1, 1, 3, true},
                                            {64, 64, 4, 1, 1, 3, true},
                                            // Many tiles of few slices: what counts is how much is on its way.
                                            {128, 128, 8, 1, 1, 3, true, false, true},
                                            {128, 64, 8, 1, 1, 3, true, false, true},
                                            {64, 128, 4, 1, 1, 3, true, false, true},
                                            {64, 64, 4, 1, 1, 4, true, false, true},
                                            // Few rows: the slices of all k, or nearly so, are under way at once.
                                            {64, 128, 4, 2, 1, 6, true},
                                            {64, 64, 4, 1, 1, 8, true},
                                            {64, 64, 4, 2, 1, 8, true},
                                            {64, 32, 4, 1, 1, 6, true},
                                            {64, 32, 4, 1, 1, 8, true},
                                            {64, 32, 4, 1, 1, 12, true}};
// Of bytes, whose sums go from registers into what comes behind: blocks of one warpgroup leave room for others, and
// those of 192 columns are for whole waves of blocks (768, 2304 and 3072 columns of 4096 rows are 128 to 512 of them).
constexpr ContractTile byte_tile(int m, int n, int warps, int stages, bool waits) {
  return {.m = m,
          .n = n,
          .warps_m = warps,
          .warps_n = 1,
          .stages = stages,
          .by_warpgroups = true,
          .waits = waits,
          .from_registers = true};
}
constexpr ContractTile byte_tiles[] = {byte_tile(128, 128, 4, 3, false), byte_tile(128, 64, 4, 4, false),
                                       byte_tile(128, 192, 8, 5, false), byte_tile(128, 192, 8, 4, true),
                                       byte_tile(64, 192, 4, 3, false),  byte_tile(64, 192, 4, 3, true),
                                       byte_tile(128, 256, 8, 4, true)};
// Blocks that stay. A tile of 64 rows reads B twice as often, and leaves registers for what comes behind the sums.
constexpr ContractTile persistent_tile(int m, int n, int stages, int cluster = 1) {
  return {.m = m,
          .n = n,
          .warps_m = 4,
          .warps_n = 1,
          .stages = stages,
          .by_warpgroups = true,
          .from_registers = true,
          .persistent = true,
          .cluster = cluster};
}
constexpr ContractTile persistent_tiles[] = {persistent_tile(128, 128, 6),   persistent_tile(64, 192, 6),
                                             persistent_tile(128, 64, 8),    persistent_tile(128, 128, 6, 2),
                                             persistent_tile(64, 192, 6, 2), persistent_tile(64, 256, 5, 2),
                                             persistent_tile(128, 192, 5)};
// With patches.
constexpr ContractTile patch_tile(int rows, int n, int warps) {
  return {.m = 64, .n = n, .warps_m = warps, .warps_n = 1, .stages = 1, .by_warpgroups = true, .patch_rows = rows};
}
constexpr ContractTile patch_tiles[] = {patch_tile(1, 64, 8), patch_tile(2, 64, 8),  patch_tile(4, 64, 8),
                                        patch_tile(8, 64, 8), patch_tile(8, 64, 12), patch_tile(1, 32, 8),
                                        patch_tile(2, 32, 8), patch_tile(4, 32, 8),  patch_tile(8, 32, 8)};
constexpr ContractTile plain_tiles[] = {
    {128, 128, 2, 4, 1, 3}, {128, 64, 2, 4, 1, 3}, {64, 64, 2, 4, 1, 4}, {32, 64, 2, 2, 1, 4}, {32, 32, 2, 2, 1, 4}};

// Clock cycles, fitted to the times of some 3,600 variants in f16 on an H200 (the layers of ResNet-50, BERT and
// YOLOv5s, whose weights were not in L2): what the model finds best takes 4 % more than the best there is.
constexpr double cycles_per_second = 1.7e9;
// A launch. It was 1.6e-6 there; what the estimates of the libraries' kernels were fitted to found its weights in L2.
constexpr double seconds_around = 0.8e-6;
constexpr double start = 2500;                 // of a block: its first slices
constexpr double ring_latency = 800;           // of a copy, which the slices of a ring share, …
constexpr double window_slice = 80;            // … and more for a slice through windows, …
constexpr double window_copy = 30;             // … for each 16 bytes that a thread copies
constexpr double gap = 150;                    // where a slice's products wait for those before (not fitted)
constexpr double l2_bytes_per_cycle = 65;      // of one multiprocessor
constexpr double overlap = 0.5;                // of the shorter one of copies and products, as much comes on top
constexpr double sum_bytes_per_cycle = 30;     // of the sums on their way out, …
constexpr double finish = 300;                 // … and for each chunk of 8 columns that a thread finishes
constexpr double finish_held = 120;            // … that it has in registers (not fitted)
constexpr double part_of_k = 180;              // for each further group of warps that shares the sums
constexpr double cluster = 300;                // where blocks of a cluster share a tile, …
constexpr double cluster_part = 590;           // … for each of them
constexpr double memory = 5500;                // where blocks share a tile through memory, …
constexpr double memory_bytes_per_cycle = 62;  // … for all that they leave there

// Multiply-adds of one multiprocessor in a cycle.
double rate_of(const ContractForm& form, const ContractTile& tile) {
  if (!form.tensor_cores && !tile.tf32) return 90;
  const double bytes = bit_width(form.dtype) == 8 ? 2 : 1;  // twice as many of them (not fitted)
  const double most = (tile.tf32 ? 520 : 1035) * bytes;
  if (tile.by_warpgroups) return 1700 * bytes;
  // A warp loads fragments of 16 rows and of 16 columns of its part again and again: the narrower that is, the more.
  constexpr double loads = 0.64;
  return most /
         (1 + loads * 16 * (static_cast<double>(tile.warps_m) / tile.m + static_cast<double>(tile.warps_n) / tile.n));
}

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

// With patches, which hide no latency of their own: other blocks of the multiprocessor do. (Not fitted.)
double seconds_with_patches(const ContractForm& form, const ContractTile& tile, const ContractSize& size,
                            const DeviceFacts& device) {
  constexpr double usual_columns = 112, step = 32, way_out = 300, patch_start = 2000;
  const double tiles =
      std::max(1.0, std::ceil(size.m / (tile.patch_rows * usual_columns)) * std::ceil(size.n / tile.n));
  const double strips = std::ceil(tile.patch_rows * usual_columns * 1.07 / 64);
  const double bytes = patch_bytes(*form.window, tile, static_cast<int>(usual_columns));
  const double beside = std::max(1.0, std::floor(static_cast<double>(device.shared_bytes_per_block) / bytes));
  const double strip = std::ceil(size.k / 16) * step * std::max(tile.n, 48) / 64;
  const double of_block = patch_start + bytes / l2_bytes_per_cycle +
                          std::ceil(strips / (tile.threads() / 128.0)) * (strip + way_out * tile.n / 64);
  const double in_turn = std::ceil(tiles / (beside * device.multiprocessors)) * of_block,
               together = tiles / device.multiprocessors * strips * strip;
  return seconds_around + std::max(in_turn, together) / cycles_per_second;
}

double seconds_of_tiles(const ContractForm& form, const ContractTile& tile, int splits, const ContractSize& size,
                        const DeviceFacts& device) {
  const int bk = 128 * 8 / bit_width(form.dtype);
  const double per_split = std::ceil(static_cast<double>(k_tiles_of(form, size)) / splits);
  const double tiles = std::max(1.0, std::ceil(size.m / tile.m) * std::ceil(size.n / tile.n) * size.batch);
  const double resident =
      std::max(1.0, std::floor(std::min(static_cast<double>(device.shared_bytes_per_block) / tile.shared_bytes(),
                                        std::min(16.0, 1024.0 / tile.threads()))));
  const double blocks = tiles * splits;
  const double beside = std::ceil(std::min(resident, std::max(1.0, blocks / device.multiprocessors)));
  const double waves = std::ceil(blocks / (beside * device.multiprocessors));
  const double area = tile.m * tile.n;
  const double latency = ring_latency / (tile.stages - (tile.waits ? 0 : 1)) +
                         (form.window ? window_slice + window_copy * tile.m * 8 / tile.threads() : 0);
  const double product = beside * area * bk / rate_of(form, tile);
  const double slice = std::max({latency, product, beside * (tile.m + tile.n) * 128 / l2_bytes_per_cycle}) +
                       overlap * std::min(latency, product) + (tile.waits ? gap : 0);
  const bool is_cluster = splits <= 8 && device.features.clusters;
  if (tile.persistent) {
    // The products of two tiles in turn, beside what comes behind those of the other one; the last one's is beside
    // nothing.
    const double together = tile.cluster;
    const double several = std::ceil(std::ceil(size.m / tile.m) / together) * std::ceil(size.n / tile.n) * size.batch;
    const double turns = std::ceil(several / std::max(1.0, std::floor(device.multiprocessors / together)));
    // Rows of 128 bytes, of which shared memory moves one a cycle: copies write all of a slice, and the products of
    // each 64 rows read theirs and all of B. (An H100, BERT and ViT at 32: what counts there is not the way from L2.)
    const double moved = tile.m + tile.n + tile.m / 64.0 * (64 + tile.n);
    const double bytes = (tile.m + tile.n / together) * 128;
    const double products = std::max({area * bk / rate_of(form, tile), moved, bytes / l2_bytes_per_cycle}) * per_split,
                 finishing = finish_held * area / 8 / tile.threads();
    return seconds_around +
           (start + std::max(turns * products, turns / 2 * (products + finishing)) + finishing) / cycles_per_second;
  }
  const double chunks = std::ceil(area / 8 / tile.threads() / (is_cluster ? splits : 1));
  const double way_out = tile.from_registers ? finish_held * chunks * std::sqrt(beside)
                                             : beside * area * 4 / sum_bytes_per_cycle + finish * chunks;
  double cycles = waves * (start + per_split * slice + way_out + part_of_k * (tile.warps_k - 1));
  if (splits > 1)
    cycles += is_cluster ? cluster + splits * cluster_part : memory + splits * area * 4 / memory_bytes_per_cycle;
  return seconds_around + cycles / cycles_per_second;
}

}  // namespace

TacticParameters TileChoice::parameters() const {
  if (tile.tf32)
    return {{"m", tile.m},           {"n", tile.n},      {"warps", tile.threads() / 32},
            {"stages", tile.stages}, {"splits", splits}, {"tf32", 1}};
  if (tile.persistent && tile.cluster > 1)
    return {{"m", tile.m}, {"n", tile.n}, {"stages", tile.stages}, {"persistent", 1}, {"cluster", tile.cluster}};
  if (tile.persistent) return {{"m", tile.m}, {"n", tile.n}, {"stages", tile.stages}, {"persistent", 1}};
  if (tile.patch_rows > 0)
    return {{"rows", tile.patch_rows}, {"n", tile.n}, {"warps", tile.threads() / 32}, {"patch", 1}};
  if (tile.waits)
    return {{"m", tile.m}, {"n", tile.n},     {"warps", tile.threads() / 32}, {"stages", tile.stages}, {"wgmma", 1},
            {"waits", 1},  {"splits", splits}};
  return {{"m", tile.m},
          {"n", tile.n},
          {"warps", tile.threads() / 32},
          {"stages", tile.stages},
          {"wgmma", tile.by_warpgroups},
          {"splits", splits}};
}

namespace {

std::vector<ContractTile> tiles_of(const ContractForm& form, const DeviceFeatures& features) {
  std::vector<ContractTile> tiles(std::begin(tensor_tiles), std::end(tensor_tiles));
  if (!form.tensor_cores) {
    const bool rounds = form.tf32 && form.dtype == DType::f32 && features.tf32_products;
    if (!rounds) tiles.clear();
    for (ContractTile& tile : tiles) tile.tf32 = true;
    tiles.insert(tiles.end(), std::begin(plain_tiles), std::end(plain_tiles));
    return tiles;
  }
  if (features.warpgroup_products && bit_width(form.dtype) <= 16)
    tiles.insert(tiles.end(), std::begin(warpgroup_tiles), std::end(warpgroup_tiles));
  if (features.warpgroup_products && bit_width(form.dtype) <= 16 && !form.steps && !form.finishes_rows &&
      !form.b_by_columns)
    std::copy_if(std::begin(persistent_tiles), std::end(persistent_tiles), std::back_inserter(tiles),
                 [&](const ContractTile& tile) {
                   // Threads that copy leave those that multiply too few registers for more sums.
                   return form.tensor_copies || (tile.cluster == 1 && tile.m * tile.n <= 128 * 128);
                 });
  if (features.warpgroup_products && bit_width(form.dtype) == 8) {
    tiles.insert(tiles.end(), std::begin(byte_tiles), std::end(byte_tiles));
    for (const ContractTile& tile : warpgroup_tiles) {
      tiles.push_back(tile);
      tiles.back().from_registers = true;
    }
  }
  if (can_use_patches(form, features)) tiles.insert(tiles.end(), std::begin(patch_tiles), std::end(patch_tiles));
  return tiles;
}

}  // namespace

std::vector<ContractTile> contract_tiles(const ContractForm& form, const DeviceFeatures& features) {
  std::vector<ContractTile> tiles = tiles_of(form, features);
  for (ContractTile& tile : tiles) tile.step_bytes = step_bytes_of(form, tile);
  return tiles;
}

std::vector<TileChoice> tile_choices(const ContractForm& form, const ContractSize& size, const DeviceFacts& device) {
  std::vector<TileChoice> list;
  for (const ContractTile& tile : contract_tiles(form, device.features)) {
    if (tile.patch_rows > 0) {
      if (size.batch == 1 && patch_bytes(*form.window, tile, most_patch_columns) <= device.shared_bytes_per_block)
        list.push_back({tile, 1, seconds_with_patches(form, tile, size, device)});
      continue;
    }
    if (tile.shared_bytes() > device.shared_bytes_per_block) continue;
    // Panels of 64 columns, which a warpgroup takes as a whole.
    if (form.b_by_columns && (tile.n < 64 || (tile.by_warpgroups && tile.n / tile.warps_n < 64))) continue;
    for (const int splits : useful_splits(k_tiles_of(form, size))) {
      if ((tile.waits || tile.from_registers) && splits > 1) break;
      // Sums of bytes that no other block has a part of go from registers.
      if (tile.by_warpgroups && !tile.from_registers && bit_width(form.dtype) == 8 && splits == 1) continue;
      list.push_back({tile, splits, seconds_of_tiles(form, tile, splits, size, device)});
    }
  }
  std::stable_sort(list.begin(), list.end(),
                   [](const TileChoice& a, const TileChoice& b) { return a.seconds < b.seconds; });
  return list;
}

TileChoice choose_splits(const ContractForm& form, const ContractTile& tile, const ContractSize& size,
                         const DeviceFacts& device) {
  TileChoice best{tile, 1, 0};
  if (tile.patch_rows > 0) return best;
  for (const int splits : useful_splits(k_tiles_of(form, size))) {
    const double seconds = seconds_of_tiles(form, tile, splits, size, device);
    if (splits == 1 || seconds < best.seconds) best = {tile, splits, seconds};
  }
  return best;
}

}  // namespace camshaft::cuda
