// The fast Fourier transform of any length. Internal to the reference.
#pragma once

#include <cstdint>
#include <vector>

namespace camshaft::ops {

/// Transforms of one length: by halves when it is a power of two, else as a convolution of such a length (Bluestein).
/// Usable from several threads, each with its own scratch.
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

  int64_t length_ = 1, padded_ = 1;  // padded_: a power of two
  std::vector<Complex> twiddles_;    // exp(-2πi·k/padded_), k < padded_/2
  std::vector<Complex> chirp_;       // exp(-πi·n²/length_)
  std::vector<Complex> filter_;      // the transform of the conjugate chirp, over padded_
};

}  // namespace camshaft::ops
