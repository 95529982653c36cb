// Encoded pictures.
#pragma once

#include "ir/graph.h"

namespace camshaft::ops {

enum class PixelFormat : uint8_t { rgb, bgr, grayscale };

/// (bytes u8 [n]) -> u8 [height, width, 3], or [height, width, 1] in grayscale: the picture in a file of one of the
/// formats BMP, JPEG, PNG, PNM (PBM, PGM, PPM) and WebP, told apart by their first bytes. Samples of more than 8 bits
/// lose their lower ones, transparency is dropped, and grayscale is the luma of ITU-R BT.601.
/// Errors: invalid_argument for bytes that are no such picture, unsupported for JPEG 2000 and TIFF.
struct ImageDecoder {
  static constexpr std::string_view name = "image_decoder";
  static constexpr Traits traits = opaque_traits;
  PixelFormat format = PixelFormat::rgb;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("format", self.format);
  }
  bool operator==(const ImageDecoder&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

}  // namespace camshaft::ops

namespace camshaft {
template <>
struct EnumNames<ops::PixelFormat> {
  static constexpr std::string_view values[] = {"rgb", "bgr", "grayscale"};
};
}  // namespace camshaft
