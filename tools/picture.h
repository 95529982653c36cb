// Pictures as networks take them.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "camshaft/tensor.hpp"

namespace camshaft::tools {

/// How pixels become numbers: resized, cropped around the middle, and (value * scale - mean) / std of each channel.
struct PicturePreparation {
  /// The shorter side after resizing; 0: as large as the crop needs. Sides keep their proportion.
  int64_t resize = 0;
  int64_t height = 0, width = 0;  ///< of the crop
  double scale = 1.0 / 255;
  std::array<double, 3> mean = {0, 0, 0}, std = {1, 1, 1};
  bool is_bgr = false;            ///< channels in this order, also those of mean and std
  bool is_channels_last = false;  ///< [height, width, 3]; else [3, height, width]
};

/// "resized to 256 on the shorter side, cropped to 224x224, …"
std::string to_string(const PicturePreparation& preparation);

/// An f32 tensor of one picture. Resizing is bilinear, over all pixels that a smaller one covers, as Pillow's and
/// torchvision's with antialiasing is. Gray pictures have three equal channels. Throws Error(io) that names the path
/// for files that cannot be read, and Error(invalid_argument) for such that are no pictures, or smaller than the crop
/// when they are resized.
Tensor read_picture(const std::string& path, const PicturePreparation& preparation);

/// Of u8 [height, width, 1 or 3], as decode_picture() gives them.
Tensor prepare_picture(const Tensor& pixels, const PicturePreparation& preparation);

}  // namespace camshaft::tools
