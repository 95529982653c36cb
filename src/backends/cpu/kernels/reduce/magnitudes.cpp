#include "backends/cpu/kernels/reduce/magnitudes.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/cpu/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/reduce/magnitudes.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int32_t magnitude_bits = 0x7fffffff, infinity_bits = 0x7f800000;

// One at a time: for tails, and for blocks with infinities or NaN.
void summarize_each(const float* x, int64_t count, NumberSummary& summary) {
  for (int64_t i = 0; i < count; ++i) {
    int32_t bits;
    std::memcpy(&bits, x + i, sizeof bits);
    bits &= magnitude_bits;
    if (bits >= infinity_bits) {
      ++(bits > infinity_bits ? summary.nans : summary.infinities);
      continue;
    }
    summary.zeros += bits == 0;
    summary.min = std::min(summary.min, x[i]);
    summary.max = std::max(summary.max, x[i]);
  }
  summary.count += count;
}

void summarize(const float* x, int64_t count, NumberSummary* summary) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  // A block is in L1 when it has to be read again, and too short for its count of zeros to exceed 32 bits.
  constexpr int64_t block = 4096;
  const auto most = hn::Set(di, magnitude_bits);
  for (int64_t begin = 0; begin < count; begin += block) {
    const int64_t length = std::min(block, count - begin), whole = length / lanes * lanes;
    const float* from = x + begin;
    auto least = hn::Set(d, std::numeric_limits<float>::infinity()), greatest = hn::Neg(least);
    auto largest = hn::Zero(di), zeros = hn::Zero(di);
    for (int64_t i = 0; i < whole; i += lanes) {
      const auto v = hn::LoadU(d, from + i);
      const auto magnitude = hn::And(hn::BitCast(di, v), most);
      least = hn::Min(least, v);
      greatest = hn::Max(greatest, v);
      largest = hn::Max(largest, magnitude);
      zeros = hn::Sub(zeros, hn::VecFromMask(di, hn::Eq(magnitude, hn::Zero(di))));
    }
    if (hn::GetLane(hn::MaxOfLanes(di, largest)) >= infinity_bits) {
      summarize_each(from, length, *summary);
      continue;
    }
    if (whole > 0) {
      summary->min = std::min(summary->min, hn::GetLane(hn::MinOfLanes(d, least)));
      summary->max = std::max(summary->max, hn::GetLane(hn::MaxOfLanes(d, greatest)));
      summary->zeros += hn::GetLane(hn::SumOfLanes(di, zeros));
      summary->count += whole;
    }
    summarize_each(from + whole, length - whole, *summary);
  }
}

// Into four tables of `pitch` bins in turn (a pitch of 0: one): a counter that is counted up again at once would wait
// for its own store. Zeros, half of what an activation leaves, are dropped before.
void count_bins(const float* x, int64_t count, float bins_per_unit, int32_t last, uint32_t* tables, int64_t pitch) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr int64_t block = 1024;
  HWY_ALIGN int32_t indices[block + 64];
  const auto scale = hn::Set(d, bins_per_unit), end = hn::Set(d, static_cast<float>(last));
  const auto infinity = hn::Set(d, std::numeric_limits<float>::infinity());
  uint32_t *const a = tables, *const b = a + pitch, *const c = b + pitch, *const e = c + pitch;
  for (int64_t begin = 0; begin < count; begin += block) {
    const int64_t length = std::min(block, count - begin), whole = length / lanes * lanes;
    const float* from = x + begin;
    int64_t n = 0;
    for (int64_t i = 0; i < whole; i += lanes) {
      const auto magnitude = hn::Abs(hn::LoadU(d, from + i));
      const auto bin = hn::ConvertTo(di, hn::Min(hn::Mul(magnitude, scale), end));
      const auto counts = hn::RebindMask(di, hn::And(hn::Gt(magnitude, hn::Zero(d)), hn::Lt(magnitude, infinity)));
      hn::StoreU(hn::Compress(bin, counts), di, indices + n);
      n += static_cast<int64_t>(hn::CountTrue(di, counts));
    }
    for (int64_t i = whole; i < length; ++i) {
      const float magnitude = std::fabs(from[i]);
      if (magnitude > 0 && magnitude < std::numeric_limits<float>::infinity())
        indices[n++] = static_cast<int32_t>(std::min(magnitude * bins_per_unit, static_cast<float>(last)));
    }
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
      ++a[indices[i]];
      ++b[indices[i + 1]];
      ++c[indices[i + 2]];
      ++e[indices[i + 3]];
    }
    for (; i < n; ++i) ++a[indices[i]];
  }
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(summarize);
HWY_EXPORT(count_bins);

namespace {

constexpr int64_t least_elements = 16 * 1024;  // for which waking a thread pays
// Four tables of so many bins are 64 KB, of which the bins in use are in L1.
constexpr size_t most_bins_in_turn = 4096;

int64_t parts_for(const ThreadPool& pool, int64_t count) {
  return std::clamp<int64_t>(count / least_elements, 1, pool.size());
}

// Where part p of `parts` begins.
int64_t begin_of(int64_t count, int64_t parts, int64_t p) {
  return count / parts * p + count % parts * p / parts;
}

}  // namespace

float NumberSummary::largest() const {
  return finite() > 0 ? std::max(std::fabs(min), std::fabs(max)) : 0.0F;
}

void NumberSummary::add(const NumberSummary& other) {
  min = std::min(min, other.min);
  max = std::max(max, other.max);
  count += other.count;
  zeros += other.zeros;
  nans += other.nans;
  infinities += other.infinities;
}

NumberSummary summarize_numbers(ThreadPool& pool, const float* x, int64_t count) {
  struct alignas(64) Own {
    NumberSummary summary;
  };
  const auto summarize_part = HWY_DYNAMIC_DISPATCH(summarize);
  const int64_t parts = parts_for(pool, count);
  std::vector<Own> own(static_cast<size_t>(parts));
  pool.parallel_for(parts, 1, [&](int64_t first, int64_t past) {
    for (int64_t p = first; p < past; ++p) {
      const int64_t begin = begin_of(count, parts, p), end = begin_of(count, parts, p + 1);
      summarize_part(x + begin, end - begin, &own[static_cast<size_t>(p)].summary);
    }
  });
  NumberSummary all;
  for (const Own& part : own) all.add(part.summary);
  return all;
}

// Calls work(begin, end, table, part) for parts of `count` numbers, each with tables of its own, and adds these to
// bins.
template <class Work>
void MagnitudeCounter::for_parts(ThreadPool& pool, int64_t count, std::span<uint64_t> bins, const Work& work) {
  // Counters have 32 bits.
  constexpr int64_t most_in_part = int64_t{1} << 31;
  const int64_t parts = std::max(parts_for(pool, count), count / most_in_part + 1);
  if (parts_.size() < static_cast<size_t>(parts)) parts_.resize(static_cast<size_t>(parts));
  const size_t size = bins.size(), in_turn = size <= most_bins_in_turn ? 4 : 1;
  pool.parallel_for(parts, 1, [&](int64_t first, int64_t past) {
    for (int64_t p = first; p < past; ++p) {
      Part& part = parts_[static_cast<size_t>(p)];
      part.tables.assign(size * in_turn, 0);
      const int64_t begin = begin_of(count, parts, p), end = begin_of(count, parts, p + 1);
      work(begin, end, static_cast<int64_t>(in_turn == 1 ? 0 : size), part);
      for (size_t t = 1; t < in_turn; ++t)
        for (size_t i = 0; i < size; ++i) part.tables[i] += part.tables[t * size + i];
    }
  });
  for (int64_t p = 0; p < parts; ++p)
    for (size_t i = 0; i < size; ++i) bins[i] += parts_[static_cast<size_t>(p)].tables[i];
}

NumberSummary MagnitudeCounter::run(ThreadPool& pool, const float* x, int64_t count, float bins_per_unit,
                                    std::span<uint64_t> bins) {
  const auto summarize_part = HWY_DYNAMIC_DISPATCH(summarize);
  const auto count_part = HWY_DYNAMIC_DISPATCH(count_bins);
  for (Part& part : parts_) part = Part{{}, {}, std::move(part.tables)};
  for_parts(pool, count, bins, [&](int64_t begin, int64_t end, int64_t pitch, Part& part) {
    summarize_part(x + begin, end - begin, &part.summary);
    const float largest = part.summary.largest();
    if (largest == 0) return;
    if (bins.empty() || largest * bins_per_unit > static_cast<float>(bins.size())) {
      part.rest = {x + begin, static_cast<size_t>(end - begin)};
      return;
    }
    count_part(x + begin, end - begin, bins_per_unit, static_cast<int32_t>(bins.size()) - 1, part.tables.data(), pitch);
  });
  NumberSummary all;
  rest_.clear();
  for (const Part& part : parts_) {
    all.add(part.summary);
    if (!part.rest.empty()) rest_.push_back(part.rest);
  }
  return all;
}

void MagnitudeCounter::run_rest(ThreadPool& pool, float bins_per_unit, std::span<uint64_t> bins) {
  const auto count_part = HWY_DYNAMIC_DISPATCH(count_bins);
  const auto last = static_cast<int32_t>(bins.size()) - 1;
  for (const std::span<const float> rest : rest_)
    for_parts(pool, static_cast<int64_t>(rest.size()), bins,
              [&](int64_t begin, int64_t end, int64_t pitch, Part& part) {
                count_part(rest.data() + begin, end - begin, bins_per_unit, last, part.tables.data(), pitch);
              });
  rest_.clear();
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
