// What rounding may move an operator's results by: how far a model's outputs can differ without anything being wrong.
#pragma once

#include "base/random.h"
#include "ir/op.h"

namespace camshaft {

/// Of an operator that sums products (matmul, convolutions, sums, means) in f32: for each element of the result the sum
/// of the products' magnitudes, times the square root of their number. In whatever order they are summed, rounding
/// moves the sum by less than 2^-24 of that but with a small probability (Higham and Mary, "A new approach to
/// probabilistic rounding error analysis", 2019), also where the sum itself is near 0. Undefined for other operators.
Tensor rounding_scale(const Op& op, const EvalContext& context);

/// Of a recurrent layer in f32, which puts sums of products through functions: its results with each sum moved by this
/// part of its rounding_scale(), up or down at random. What becomes of that depends on the functions and on the steps
/// that follow. `results` are those without noise; empty for other operators.
std::vector<Tensor> with_noisy_sums(const Op& op, const EvalContext& context, const std::vector<Tensor>& results,
                                    double of_sums, Random& random);

/// Whether whole numbers that an operator gives, of whole numbers, have no rounding in them: conversions, moves,
/// selections, sums, products and rounding itself. Sizes that a model computes as floats are such.
bool keeps_whole_numbers(const Op& op);

/// Of f32, for RoundingNoise::of_results.
constexpr double noise_of_f32 = 0x1p-22;

struct RoundingNoise {
  /// Each f32 element is multiplied by 1 ± this, the sign at random. Those of f16 and bf16 move by as many units in the
  /// last place: 2^13 and 2^16 times this, or this where it is more than 2^-9 and 2^-6. So do those of f64, by 2^-29
  /// times this, at most 2^-51. Numbers below the smallest normal one move as it does, but not to 0, and finite ones
  /// stay finite.
  double of_results = 0;
  /// Beside that, f32 elements move by this part of their rounding_scale(), where their operator has one, or by what
  /// with_noisy_sums() makes of it.
  double of_sums = 0;
  /// f32 elements other than 0 move by this at least, or by themselves where they are smaller: f16 has fixed steps of
  /// 2^-24 near 0.
  double least = 0;
};

/// What moves the results within bodies of loops and branches; each time that one runs it is drawn anew.
struct NoiseOfBodies {
  RoundingNoise noise;
  Random& random;
};

enum class WholeNumbers : uint8_t { move, stay };

/// A copy of a tensor of f32, f16, bf16 or f64 with noise; others as they are. `scale` is a rounding_scale(), or
/// undefined. Whole numbers may be told to stay what they are, see keeps_whole_numbers().
Tensor with_noise(const Tensor& exact, const Tensor& scale, const RoundingNoise& noise, Random& random,
                  WholeNumbers whole_numbers = WholeNumbers::move);

}  // namespace camshaft
