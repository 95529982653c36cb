// Few rows times weights of few bits, as products of bytes: each element of a row is written as four signed digits of
// base 256, and the machine multiplies four codes by four digits at a time. Internal to the kernels.
//
// The digits of a chunk of K count the same unit, which puts its largest element below 2^30: elements down to a
// hundredth of that keep all of their 24 bits, and of smaller ones what is lost is a 2^-7th of what rounding a f32 sum
// with the largest loses. Sums of a chunk are exact. A row with an infinity or a NaN has no digits and is multiplied in
// f32. One row of 4-bit weights in L2 takes 1.1 cycles for 16 of them, with codes as floats 2.9.
#pragma once

#include "backends/cpu/kernels/gemm/narrow_gemm.h"

namespace camshaft::cpu {

/// The rows of A in digits, in memory that the caller has: 64-byte aligned and of bytes().
struct NarrowDigits {
  static constexpr int64_t kDigits = 4;

  NarrowDigits(const NarrowWeights& w, int64_t m, void* memory);
  static int64_t bytes(const NarrowWeights& w, int64_t m);

  int64_t row_words = 0, chunks = 0;
  uint32_t* words = nullptr;   ///< [m, row_words]: of each quad of K the words of its digits, from the lowest
  int32_t* sums = nullptr;     ///< [m, chunks, kDigits]
  float* units = nullptr;      ///< [m, chunks]
  bool* are_finite = nullptr;  ///< [m]
};

/// Whether zero points are codes, as sums of bytes take them.
bool takes_digits(const NarrowGemm& args);
/// For machines with has_int8_dots() alone, as is what follows.
void make_digits(const NarrowGemm& args, const NarrowDigits& digits);
/// What narrow_panel_sums() computes.
void narrow_panel_dots(const NarrowGemm& args, const NarrowDigits& digits, int64_t panel, int64_t begin, int64_t end,
                       float* sums);

}  // namespace camshaft::cpu
