// What Winograd's transform multiplies weights by. Internal to the kernels.
#pragma once

#include <cstdint>

namespace camshaft::cpu {

/// By point of the transformed tile: what each of the nine weights is multiplied by.
struct WinogradFactors {
  static constexpr int64_t kTaps = 9, kMostPoints = 36;
  double of[kMostPoints][kTaps] = {};

  /// Tiles of 4 or 2 outputs along an axis.
  explicit WinogradFactors(int64_t tile) {
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
    const double(*transform)[3] = tile == 4 ? kWeights4 : kWeights2;
    for (int64_t point = 0; point < (tile + 2) * (tile + 2); ++point)
      for (int64_t tap = 0; tap < kTaps; ++tap)
        of[point][tap] = transform[point / (tile + 2)][tap / 3] * transform[point % (tile + 2)][tap % 3];
  }
};

}  // namespace camshaft::cpu
