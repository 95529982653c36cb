// Convolutions of 8-bit numbers in narrow groups against loops in i64: groups that share vectors, extremes, zero
// points, every instruction set, with and without the one that multiplies quads.
#include "backends/cpu/kernels/conv/int8_grouped.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/kernel_test_util.h"
#include "base/thread_pool.h"

namespace camshaft::cpu::int8_grouped_test {
namespace {

struct Case {
  int64_t groups, outputs, inputs, kernel, size, stride, pad;
  bool is_signed, flips, zeros, extreme;
};

std::vector<uint8_t> bytes(RandomData& random, int64_t count, bool extreme) {
  std::vector<uint8_t> values(static_cast<size_t>(count));
  for (uint8_t& v : values)
    v = static_cast<uint8_t>(extreme ? (random.coin() ? 255 : 127 + random.integer(0, 1)) : random.integer(0, 255));
  return values;
}

// One element as the kernel sums it up: bytes of x count as u8, those of weights as i8.
int64_t expected(const Case& c, const ConvShape& s, const std::vector<uint8_t>& x, const std::vector<uint8_t>& w,
                 const std::vector<int32_t>& zeros, uint8_t padding, int64_t row, int64_t o) {
  const int64_t column = row % s.out_w(), line = row / s.out_w() % s.out_h(), image = row / s.out_w() / s.out_h();
  const int64_t group = o / c.outputs;
  int64_t sum = 1000 + o;
  for (int64_t i = 0; i < c.kernel; ++i)
    for (int64_t j = 0; j < c.kernel; ++j)
      for (int64_t k = 0; k < c.inputs; ++k) {
        const int64_t y = line * c.stride + i - c.pad, z = column * c.stride + j - c.pad;
        const bool inside = y >= 0 && y < s.in_h && z >= 0 && z < s.in_w;
        const int64_t at = ((image * s.in_h + y) * s.in_w + z) * s.in_channels + group * c.inputs + k;
        const auto a = static_cast<uint8_t>((inside ? x[static_cast<size_t>(at)] : padding) ^ (c.is_signed ? 0x80 : 0));
        const auto b = static_cast<size_t>((o * c.inputs + k) * c.kernel * c.kernel + i * c.kernel + j);
        const auto weight = static_cast<int8_t>(w[b] ^ (c.flips ? 0x80 : 0));
        sum += int64_t{a} * (weight - (zeros.empty() ? 0 : zeros[static_cast<size_t>(o)]));
      }
  return sum;
}

void check(const Case& c, RandomData& random, ThreadPool& pool, bool dots) {
  SCOPED_TRACE(testing::Message() << c.groups << " groups of " << c.outputs << " from " << c.inputs << " kernel "
                                  << c.kernel << " size " << c.size << " stride " << c.stride << " pad " << c.pad
                                  << " signed " << c.is_signed << c.flips << " zeros " << c.zeros << " dots " << dots
                                  << " threads " << pool.size());
  ConvShape s;
  s.batch = 2, s.in_h = c.size, s.in_w = c.size + 2, s.groups = c.groups;
  s.in_channels = c.groups * c.inputs, s.out_channels = c.groups * c.outputs;
  s.kernel_h = s.kernel_w = c.kernel, s.stride_h = s.stride_w = c.stride;
  s.pad_top = s.pad_left = s.pad_bottom = s.pad_right = c.pad;
  const ConvPlan plan(s, 1);
  const int64_t rows = plan.rows(), n = s.out_channels;
  const Int8GroupedWeights w = int8_grouped_weights(n, c.inputs, c.kernel * c.kernel, c.groups);
  const std::vector<uint8_t> x = bytes(random, s.batch * s.in_h * s.in_w * s.in_channels, c.extreme);
  const std::vector<uint8_t> weights = bytes(random, n * c.inputs * c.kernel * c.kernel, c.extreme);
  std::vector<std::byte> packed(static_cast<size_t>(w.bytes()));
  pack_int8_grouped(w, weights.data(), c.flips, packed.data());
  std::vector<uint8_t> unpacked(weights.size());
  unpack_int8_grouped(w, packed.data(), c.flips, unpacked.data());
  ASSERT_EQ(unpacked, weights);

  const std::vector<uint8_t> padding(static_cast<size_t>(s.in_channels), 77);
  std::vector<int32_t> zeros, of_lanes(static_cast<size_t>(w.units() * w.lanes)), begin(of_lanes.size());
  for (int64_t o = 0; c.zeros && o < n; ++o) zeros.push_back(static_cast<int32_t>(random.integer(-128, 127)));
  for (int64_t o = 0; o < n; ++o) {
    const auto at = static_cast<size_t>(o / w.unit_outputs() * w.lanes + o % w.unit_outputs());
    begin[at] = static_cast<int32_t>(1000 + o);
    if (c.zeros) of_lanes[at] = zeros[static_cast<size_t>(o)];
  }
  std::vector<int32_t> result(static_cast<size_t>(rows * n));
  Int8GroupedProblem p;
  p.plan = &plan;
  p.x = x.data();
  p.is_signed = c.is_signed;
  p.padding = padding.data();
  p.weights = w;
  p.packed = packed.data();
  p.begin = begin.data();
  p.zeros = c.zeros ? of_lanes.data() : nullptr;
  p.result.c = result.data();
  p.result.ldc = n;
  Workspace workspace(int8_grouped_workspace_bytes(w, pool.size()));
  int8_grouped(p, pool, workspace.get(), dots);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t o = 0; o < n; ++o)
      ASSERT_EQ(result[static_cast<size_t>(row * n + o)], expected(c, s, x, weights, zeros, 77, row, o))
          << "row " << row << " column " << o;
}

TEST(Int8Grouped, LikeLoops) {
  RandomData random;
  ThreadPool one(1), three(3);
  for_each_target([&] {
    for (int round = 0; round < 150; ++round) {
      const int64_t outputs = random.coin() ? int64_t{1} << random.integer(0, 4) : random.integer(1, 16);
      const Case c{random.integer(2, random.coin() ? 40 : 6),
                   outputs,
                   random.coin() ? outputs : random.integer(1, 64),
                   random.integer(1, 3),
                   random.integer(3, 9),
                   random.integer(1, 2),
                   random.integer(0, 2),
                   random.coin(),
                   random.coin(),
                   random.integer(0, 2) == 0,
                   random.integer(0, 3) == 0};
      const Int8GroupedWeights w = int8_grouped_weights(c.groups * c.outputs, c.inputs, c.kernel * c.kernel, c.groups);
      if (!int8_grouped_takes(w, c.groups * c.inputs)) continue;
      for (const bool dots : {has_int8_dots(), false}) check(c, random, random.coin() ? one : three, dots);
    }
  });
}

}  // namespace
}  // namespace camshaft::cpu::int8_grouped_test
