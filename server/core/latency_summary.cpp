#include "server/core/latency_summary.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace camshaft::server {

namespace {

// Each power of two has so many places: a place is 1.6 % wide.
constexpr uint64_t places_of_octave = 64;
constexpr int octave_bits = std::countr_zero(places_of_octave);
// What takes longer (an hour) counts as that.
constexpr uint64_t longest_ns = uint64_t{1} << 42;

size_t place_of(uint64_t ns) {
  const uint64_t value = std::min(ns, longest_ns);
  if (value < places_of_octave) return static_cast<size_t>(value);
  const int shift = static_cast<int>(std::bit_width(value)) - 1 - octave_bits;
  return static_cast<size_t>(places_of_octave * static_cast<uint64_t>(shift) + (value >> shift));
}

// The largest duration that has the place.
uint64_t end_of(size_t place) {
  if (place < places_of_octave) return place;
  const auto shift = static_cast<int>(place / places_of_octave - 1);
  return ((places_of_octave + place % places_of_octave + 1) << shift) - 1;
}

}  // namespace

void LatencySummary::add(uint64_t ns, Clock::time_point now) {
  const int64_t number = slice_of(now);
  Slice& slice = slices_[static_cast<size_t>(number % slices)];
  if (slice.number != number) {
    slice.number = number;
    slice.counts.assign(place_of(longest_ns) + 1, 0);
  }
  ++slice.counts[place_of(ns)];
  ++count_;
  sum_ns_ += ns;
}

double LatencySummary::quantile(double share, Clock::time_point now) const {
  const int64_t number = slice_of(now);
  std::vector<uint64_t> counts(place_of(longest_ns) + 1);
  uint64_t all = 0;
  for (const Slice& slice : slices_) {
    if (slice.number < 0 || slice.number <= number - slices) continue;
    for (size_t i = 0; i < counts.size(); ++i) {
      counts[i] += slice.counts[i];
      all += slice.counts[i];
    }
  }
  if (all == 0) return std::numeric_limits<double>::quiet_NaN();
  const auto rank = static_cast<uint64_t>(std::ceil(share * static_cast<double>(all)));
  size_t place = 0;
  for (uint64_t passed = counts[0]; passed < std::max<uint64_t>(rank, 1); passed += counts[place]) ++place;
  return static_cast<double>(end_of(place)) / 1000;
}

}  // namespace camshaft::server
