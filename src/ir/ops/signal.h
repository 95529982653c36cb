// Fourier transforms and what stands around them.
#pragma once

#include "ir/graph.h"

namespace camshaft::ops {

/// (x[..., 1 or 2], length?, axis?) -> the discrete Fourier transform along `axis` (not the last one, which holds real
/// and imaginary parts), or along that of input 2, an integer scalar that may be negative, when the field is -1. The
/// signal is cut or filled with zeros to the length, an i64 or i32 scalar. `onesided`: of a real signal the first
/// length/2 + 1 values, or, inverse, those back to a real signal. Computed in f64.
struct Dft {
  static constexpr std::string_view name = "dft";
  static constexpr Traits traits = opaque_traits;
  int64_t axis = 0;  ///< -1: input 2
  bool inverse = false;
  bool onesided = false;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("axis", self.axis);
    visit("inverse", self.inverse);
    visit("onesided", self.onesided);
  }
  bool operator==(const Dft&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// (signal[batch, length, 1 or 2], step, window[n]?, frame length?) -> [batch, frames, bins, 2]: the transform of each
/// windowed frame that lies inside the signal.
struct Stft {
  static constexpr std::string_view name = "stft";
  static constexpr Traits traits = opaque_traits;
  bool onesided = true;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("onesided", self.onesided);
  }
  bool operator==(const Stft&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// (mel bins, transform length, sample rate, lowest, highest frequency), all scalars -> [length/2 + 1, mel bins]: the
/// triangular weights that take a spectrum to mel scale, as ONNX's MelWeightMatrix defines them.
struct MelWeights {
  static constexpr std::string_view name = "mel_weights";
  static constexpr Traits traits = opaque_traits;
  DType dtype = DType::f32;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("dtype", self.dtype);
  }
  bool operator==(const MelWeights&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

}  // namespace camshaft::ops
