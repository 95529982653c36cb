// Encoded pictures.
#include <fmt/format.h>

#include "ir/ops/image_decoder.h"
#include "onnx/converters.h"
#include "onnx/quote.h"

namespace camshaft::onnx {

namespace {

Values image_decoder(ConvertContext& c) {
  const std::string format = c.string_attribute("pixel_format", "RGB");
  ops::ImageDecoder op;
  if (format == "BGR") {
    op.format = ops::PixelFormat::bgr;
  } else if (format == "Grayscale") {
    op.format = ops::PixelFormat::grayscale;
  } else if (format != "RGB") {
    c.invalid(fmt::format("pixel_format is {}; RGB, BGR and Grayscale are possible", quote(format)));
  }
  return c.result(op, {c.input(0)});
}

constexpr Converter image_table[] = {{"ImageDecoder", image_decoder}};

}  // namespace

std::span<const Converter> image_converters() {
  return image_table;
}

}  // namespace camshaft::onnx
