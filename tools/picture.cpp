#include "tools/picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "camshaft/calibration.hpp"
#include "camshaft/error.hpp"
#include "tools/input_file.h"

namespace camshaft::tools {

namespace {

/// Which pixels of a line make one of another length, and by which weights: a triangle as wide as a pixel, or as what
/// it covers where that is more.
struct Filter {
  struct Pixel {
    int64_t first;
    std::vector<float> weights;
  };
  std::vector<Pixel> pixels;

  /// Pixels from `begin` to `end` of a line of `from` that is made `to` long.
  Filter(int64_t from, int64_t to, int64_t begin, int64_t end) {
    const double ratio = static_cast<double>(from) / static_cast<double>(to), reach = std::max(ratio, 1.0);
    for (int64_t i = begin; i < end; ++i) {
      const double middle = (static_cast<double>(i) + 0.5) * ratio;
      const auto first = std::max<int64_t>(0, static_cast<int64_t>(middle - reach + 0.5));
      const auto past = std::min<int64_t>(from, static_cast<int64_t>(middle + reach + 0.5));
      Pixel pixel{first, {}};
      double sum = 0;
      for (int64_t p = first; p < past; ++p) {
        const double weight = std::max(0.0, 1 - std::fabs(static_cast<double>(p) + 0.5 - middle) / reach);
        pixel.weights.push_back(static_cast<float>(weight));
        sum += weight;
      }
      for (float& weight : pixel.weights) weight = static_cast<float>(weight / sum);
      pixels.push_back(std::move(pixel));
    }
  }
};

/// The part of a resized picture that the crop leaves: [height, width, channels], still from 0 to 255.
std::vector<float> resized(const Tensor& pixels, const Filter& rows, const Filter& columns) {
  const Dims dims = pixels.dims();
  const int64_t width = dims[1], channels = dims[2];
  const auto* from = pixels.as<uint8_t>();
  const auto line = static_cast<size_t>(width * channels);
  std::vector<float> blended(line), out;
  out.reserve(rows.pixels.size() * columns.pixels.size() * static_cast<size_t>(channels));
  for (const Filter::Pixel& row : rows.pixels) {
    std::fill(blended.begin(), blended.end(), 0.0F);
    for (size_t k = 0; k < row.weights.size(); ++k) {
      const uint8_t* source = from + (static_cast<size_t>(row.first) + k) * line;
      for (size_t i = 0; i < line; ++i) blended[i] += row.weights[k] * static_cast<float>(source[i]);
    }
    for (const Filter::Pixel& column : columns.pixels)
      for (int64_t c = 0; c < channels; ++c) {
        float sum = 0;
        for (size_t k = 0; k < column.weights.size(); ++k)
          sum +=
              column.weights[k] *
              blended[(static_cast<size_t>(column.first) + k) * static_cast<size_t>(channels) + static_cast<size_t>(c)];
        out.push_back(std::clamp(std::nearbyint(sum), 0.0F, 255.0F));
      }
  }
  return out;
}

}  // namespace

std::string to_string(const PicturePreparation& p) {
  std::string text = p.resize > 0 ? fmt::format("resized to {} on the shorter side, ", p.resize) : "resized to fit, ";
  text += fmt::format("cropped to {}x{}, times {:.6g}", p.height, p.width, p.scale);
  if (p.mean != std::array<double, 3>{0, 0, 0}) text += fmt::format(", less [{:.6g}]", fmt::join(p.mean, ", "));
  if (p.std != std::array<double, 3>{1, 1, 1}) text += fmt::format(", over [{:.6g}]", fmt::join(p.std, ", "));
  return text +
         fmt::format(", {}, {}", p.is_bgr ? "bgr" : "rgb", p.is_channels_last ? "channels last" : "channels first");
}

Tensor prepare_picture(const Tensor& pixels, const PicturePreparation& p) {
  const int64_t height = pixels.dims()[0], width = pixels.dims()[1], channels = pixels.dims()[2];
  // The sides after resizing; the longer one is cut, as torchvision does.
  int64_t resized_height, resized_width;
  if (p.resize > 0) {
    const bool is_wide = width >= height;
    const auto longer =
        static_cast<int64_t>(static_cast<double>(p.resize) * static_cast<double>(std::max(width, height)) /
                             static_cast<double>(std::min(width, height)));
    resized_height = is_wide ? p.resize : longer;
    resized_width = is_wide ? longer : p.resize;
  } else {
    const double factor = std::max(static_cast<double>(p.height) / static_cast<double>(height),
                                   static_cast<double>(p.width) / static_cast<double>(width));
    resized_height = std::max(p.height, static_cast<int64_t>(std::lround(factor * static_cast<double>(height))));
    resized_width = std::max(p.width, static_cast<int64_t>(std::lround(factor * static_cast<double>(width))));
  }
  if (resized_height < p.height || resized_width < p.width)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("a picture of {}x{} is {}x{} when it is resized, from which "
                            "{}x{} cannot be cropped: resize to more (--resize)",
                            height, width, resized_height, resized_width, p.height, p.width));
  // Halves to the even side, as torchvision's center_crop.
  const int64_t top = std::lrint(static_cast<double>(resized_height - p.height) / 2),
                left = std::lrint(static_cast<double>(resized_width - p.width) / 2);
  const std::vector<float> values = resized(pixels, Filter(height, resized_height, top, top + p.height),
                                            Filter(width, resized_width, left, left + p.width));
  constexpr int64_t made = 3;
  Tensor tensor(DType::f32, p.is_channels_last ? Dims{p.height, p.width, made} : Dims{made, p.height, p.width});
  auto* out = tensor.as_mutable<float>();
  const int64_t count = p.height * p.width;
  for (int64_t c = 0; c < made; ++c) {
    const int64_t source = channels == 1 ? 0 : p.is_bgr ? made - 1 - c : c;
    const double mean = p.mean[static_cast<size_t>(c)], std = p.std[static_cast<size_t>(c)];
    for (int64_t i = 0; i < count; ++i) {
      const double value =
          (static_cast<double>(values[static_cast<size_t>(i * channels + source)]) * p.scale - mean) / std;
      out[p.is_channels_last ? i * made + c : c * count + i] = static_cast<float>(value);
    }
  }
  return tensor;
}

Tensor read_picture(const std::string& path, const PicturePreparation& preparation) {
  const InputFile file(path);
  try {
    return prepare_picture(decode_picture(file.bytes()), preparation);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("'{}': {}", path, error.what()));
  }
}

}  // namespace camshaft::tools
