#include "tools/calibration_arguments.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <tuple>
#include <utility>

#include "tools/number_option.h"

namespace camshaft::tools {

namespace {

/// "224x320", or one number for both.
std::pair<int64_t, int64_t> parse_size(const std::string& text) {
  constexpr int64_t most = 1 << 16;
  const size_t x = text.find('x');
  if (x == std::string::npos) {
    const int64_t side = parse_whole(text, "crop", 1, most, 0);
    return {side, side};
  }
  return {parse_whole(text.substr(0, x), "crop", 1, most, 1), parse_whole(text.substr(x + 1), "crop", 1, most, 1)};
}

std::array<double, 3> parse_channels(const std::vector<std::string>& texts, const char* name, double fallback) {
  if (texts.empty()) return {fallback, fallback, fallback};
  if (texts.size() != 1 && texts.size() != 3)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} takes one number, or three with commas between them", name));
  std::array<double, 3> values{};
  for (size_t c = 0; c < values.size(); ++c) {
    const std::string& text = texts[texts.size() == 1 ? 0 : c];
    char* end = nullptr;
    values[c] = std::strtod(text.c_str(), &end);
    if (text.empty() || *end != '\0' || !(std::fabs(values[c]) < 1e9) || (fallback != 0 && values[c] == 0))
      throw Error(ErrorCode::invalid_argument, fmt::format("{} cannot be '{}'", name, text));
  }
  return values;
}

}  // namespace

CalibrationDataOptions CalibrationArguments::data_options() const {
  CalibrationDataOptions options;
  options.batch = parse_whole(batch, "batch", 1, 1 << 20, 0);
  options.max_samples = parse_whole(max_samples, "max-samples", 1, INT64_MAX, 0);
  PicturePreparation& pictures = options.pictures;
  pictures.resize = parse_whole(resize, "resize", 1, 1 << 16, 0);
  if (!crop.empty()) std::tie(pictures.height, pictures.width) = parse_size(crop);
  pictures.scale = parse_positive(scale, "scale", pictures.scale);
  pictures.mean = parse_channels(mean, "mean", 0);
  pictures.std = parse_channels(std, "std", 1);
  if (channels != "rgb" && channels != "bgr")
    throw Error(ErrorCode::invalid_argument, fmt::format("channels must be rgb or bgr, not '{}'", channels));
  pictures.is_bgr = channels == "bgr";
  return options;
}

void CalibrationArguments::set(CalibrationOptions& options) const {
  if (!percentile.empty() && method != "percentile")
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("--percentile is of the method percentile, and this is {}; give --method percentile", method));
  options.set("method", method);
  if (!percentile.empty()) options.set("percentile", percentile);
}

void CalibrationArguments::add_to(CLI::App& command) {
  const auto add = [&](const char* name, auto& target, const char* help, const char* type, const char* group) {
    return command.add_option(name, target, help)->type_name(type)->group(group);
  };
  add("--data", data, "A file or folder of arrays (.npz by the names of inputs, .npy for one input) or of pictures",
      "PATH", "Data");
  add("--method", method, "How ranges are chosen: mse (default), entropy, minmax or percentile", "METHOD", "Ranges");
  add("--percentile", percentile,
      "Of the method percentile: the share of magnitudes that are not clipped (default: 99.99)", "P", "Ranges");
  add("--batch", batch,
      "Samples in a batch, for a model that takes any number (default: 1 of pictures, as many as a file has of arrays)",
      "N", "Data");
  add("--max-samples", max_samples,
      "Take no more samples than this; pictures are taken evenly spread over all (default: all)", "N", "Data");
  add("--resize", resize, "Resize to this length of the shorter side (default: as the crop needs)", "N", "Pictures");
  add("--crop", crop, "Cut this size from the middle (default: what the model takes)", "HEIGHTxWIDTH", "Pictures");
  add("--scale", scale, "Multiply pixels, which are 0 to 255, by this (default: 1/255)", "X", "Pictures");
  add("--mean", mean, "Then take this away, of each channel or of all (default: 0)", "X[,X,X]", "Pictures")
      ->delimiter(',')
      ->allow_extra_args(false);
  add("--std", std, "Then divide by this (default: 1)", "X[,X,X]", "Pictures")->delimiter(',')->allow_extra_args(false);
  add("--channels", channels, "The order of channels: rgb (default) or bgr", "ORDER", "Pictures");
}

void CalibrationArguments::check_fits(const CalibrationData& read) const {
  if (read.has_pictures()) return;
  const std::pair<const char*, bool> given[] = {{"--resize", !resize.empty()}, {"--crop", !crop.empty()},
                                                {"--scale", !scale.empty()},   {"--mean", !mean.empty()},
                                                {"--std", !std.empty()},       {"--channels", channels != "rgb"}};
  for (const auto& [name, is_given] : given)
    if (is_given)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{} is for pictures, and '{}' has arrays, which are taken as they are; leave it out",
                              name, data));
}

}  // namespace camshaft::tools
