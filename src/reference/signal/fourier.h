// The fast Fourier transform of any length. Internal to the reference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace camshaft::ops {

/// Transforms of one length: by halves when it is a power of two, by its factors where these are small (Cooley and
/// Tukey), else as a convolution of a power of two (Bluestein). Usable from several threads, each with its own scratch.
class FourierPlan {
 public:
  struct Complex {
    double re = 0, im = 0;
  };
  /// Throws Error(invalid_argument) for lengths below 1 or above 2^28.
  explicit FourierPlan(int64_t length);
  int64_t length() const { return length_; }
  /// In place and without scaling: data[k] = Σ data[n]·exp(∓2πi·kn/length), minus unless `inverse`.
  void run(Complex* data, bool inverse, std::vector<Complex>& scratch) const;

 private:
  void power_of_two(Complex* data, bool inverse) const;
  void by_factors(const Complex* in, Complex* out, int64_t length, size_t factor) const;

  int64_t length_ = 1, padded_ = 1;  // padded_: a power of two
  std::vector<int64_t> factors_;     // of length_, where it goes by these
  std::vector<Complex> twiddles_;  // exp(-2πi·k/padded_), k < padded_/2; by factors exp(-2πi·k/length_), k < length_
  std::vector<Complex> chirp_;     // exp(-πi·n²/length_)
  std::vector<Complex> filter_;    // the transform of the conjugate chirp, over padded_
};

}  // namespace camshaft::ops
