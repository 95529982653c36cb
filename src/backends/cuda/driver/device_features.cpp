#include "backends/cuda/driver/device_features.h"

#include <algorithm>
#include <iterator>

namespace camshaft::cuda {

namespace {

/// An architecture, and what is new in it.
struct Row {
  int capability;
  Generation generation;
  int64_t shared_kilobytes;
  ArithmeticRates rates;
};

// Rates are of sums in f32, dense; by the white papers for tensor cores.
constexpr Row rows[] = {
    {75, Generation::turing, 64, {64, 512, 0}},            // T4
    {80, Generation::ampere, 163, {64, 1024, 512}},        // A100
    {86, Generation::ampere, 99, {128, 512, 256}},         // A10
    {87, Generation::ampere, 163, {128, 512, 256}},        // Orin
    {89, Generation::ada, 99, {128, 512, 256}},            // L4
    {90, Generation::hopper, 227, {128, 2048, 1024}},      // H100, H200
    {100, Generation::blackwell, 227, {128, 4096, 2048}},  // B200
    {103, Generation::blackwell, 227, {128, 4096, 2048}},  // B300
    {110, Generation::blackwell, 227, {}},                 // Thor
    {120, Generation::blackwell, 99, {128, 512, 256}},     // RTX PRO 6000
};

}  // namespace

DeviceFeatures features_of(int capability) {
  DeviceFeatures features;
  features.capability = capability;
  const auto next = std::upper_bound(std::begin(rows), std::end(rows), capability,
                                     [](int wanted, const Row& row) { return wanted < row.capability; });
  if (next == std::begin(rows)) return features;
  const Row& row = *std::prev(next);
  const bool ampere = row.generation >= Generation::ampere, hopper = row.generation >= Generation::hopper;
  const bool is_known = row.capability == capability;
  features.generation = row.generation;
  features.is_supported = true;
  features.own_instructions = hopper;
  features.async_copies = ampere;
  features.tensor_copies = hopper;
  features.clusters = hopper;
  features.overlapping_launches = hopper;
  features.bf16_products = ampere;
  features.tf32_products = ampere;
  features.int8_products = ampere;
  features.fp8_products = row.generation >= Generation::ada;
  features.half_product_k = ampere ? 16 : 8;
  features.warpgroup_products = row.generation == Generation::hopper;
  features.tensor_memory_products = row.generation == Generation::blackwell && row.capability < 120;
  features.shared_bytes_per_block = row.shared_kilobytes * 1024;
  if (is_known) features.rates = row.rates;
  return features;
}

}  // namespace camshaft::cuda
