#include "tools/calibration_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <optional>

#include "camshaft/error.hpp"
#include "camshaft/system.hpp"
#include "tools/npy.h"
#include "tools/npz.h"
#include "tools/tensor_text.h"

namespace camshaft::tools {

namespace {

constexpr std::array<std::string_view, 9> picture_endings = {".bmp", ".jpeg", ".jpg", ".pbm", ".pgm",
                                                             ".png", ".pnm",  ".ppm", ".webp"};

std::string ending_of(const std::filesystem::path& path) {
  std::string ending = path.extension().string();
  for (char& c : ending) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return ending;
}

bool is_picture(const std::string& ending) {
  return std::find(picture_endings.begin(), picture_endings.end(), ending) != picture_endings.end();
}

/// From axis `first` on.
bool fits(const TensorInfo& info, const Dims& dims, size_t first) {
  if (info.dims.size() != dims.size()) return false;
  for (size_t a = first; a < dims.size(); ++a)
    if (info.dims[a] >= 0 && info.dims[a] != dims[a]) return false;
  return true;
}

[[noreturn]] void fail_shape(const std::string& path, const TensorInfo& info, const Tensor& array) {
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("'{}': input '{}' is {}, which the array of shape {} does not fit, with its first axis as that "
                  "of samples or without one",
                  path, info.name, info.type, to_string(array.dims())));
}

/// The same elements with an axis of 1 in front.
Tensor with_sample_axis(const Tensor& tensor) {
  Dims dims = tensor.dims();
  dims.insert(dims.begin(), 1);
  Tensor made(tensor.dtype(), dims);
  std::memcpy(made.mutable_data(), tensor.data(), tensor.bytes());
  return made;
}

/// Samples of arrays one after the other: `count` from `from` of each.
class Gathered {
 public:
  void add(const Tensor& array, int64_t from, int64_t count) {
    const Dims dims = array.dims();
    if (!dims_.empty() && !std::equal(dims.begin() + 1, dims.end(), dims_.begin() + 1, dims_.end()))
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("samples of the shapes {} and {} cannot be in one batch; give --batch 1",
                      to_string(Dims{dims_.begin() + 1, dims_.end()}), to_string(Dims{dims.begin() + 1, dims.end()})));
    dtype_ = array.dtype();
    dims_ = dims;
    samples_ += count;
    const size_t sample = dims[0] == 0 ? 0 : array.bytes() / static_cast<size_t>(dims[0]);
    const std::byte* begin = array.data() + static_cast<size_t>(from) * sample;
    bytes_.insert(bytes_.end(), begin, begin + static_cast<size_t>(count) * sample);
  }
  Tensor tensor() {
    dims_[0] = samples_;
    Tensor made(dtype_, dims_);
    if (!bytes_.empty()) std::memcpy(made.mutable_data(), bytes_.data(), bytes_.size());
    return made;
  }

 private:
  DType dtype_ = DType::f32;
  Dims dims_;
  int64_t samples_ = 0;
  std::vector<std::byte> bytes_;
};

[[noreturn]] void fail_batch(int64_t samples, int64_t batch) {
  throw Error(ErrorCode::invalid_argument,
              fmt::format("the model takes batches of {}, and there {} for one; give more (--data, --max-samples)",
                          batch, samples == 1 ? "is only 1 sample" : fmt::format("are only {} samples", samples)));
}

/// What the model asks of pictures, where it is not said.
PicturePreparation completed(PicturePreparation pictures, const std::vector<TensorInfo>& inputs) {
  constexpr int64_t channels = 3;
  if (inputs.size() != 1 || inputs[0].dims.size() != 4 || inputs[0].dtype != DType::f32)
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("pictures are for models of one input, f32 of four axes; this one has {} input{}, the first "
                    "being {}: give arrays (.npz, .npy)",
                    inputs.size(), inputs.size() == 1 ? "" : "s", inputs.empty() ? "none" : inputs[0].type));
  const Dims& dims = inputs[0].dims;
  if (dims[1] != channels && dims[3] == channels) pictures.is_channels_last = true;
  const size_t first = pictures.is_channels_last ? 1 : 2;
  if (pictures.height == 0) pictures.height = std::max<int64_t>(dims[first], 0);
  if (pictures.width == 0) pictures.width = std::max<int64_t>(dims[first + 1], 0);
  if (pictures.height == 0 || pictures.width == 0)
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("the model takes pictures of any size ({}): say which (--crop or --shapes)", inputs[0].type));
  const Dims made = pictures.is_channels_last ? Dims{1, pictures.height, pictures.width, channels}
                                              : Dims{1, channels, pictures.height, pictures.width};
  if (!fits(inputs[0], made, 1))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("input '{}' is {}, which pictures of {}x{} and three channels do not fit", inputs[0].name,
                            inputs[0].type, pictures.height, pictures.width));
  return pictures;
}

}  // namespace

CalibrationData::CalibrationData(const std::string& path, CalibrationDataOptions options)
    : options_(std::move(options)) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) throw Error(ErrorCode::io, fmt::format("'{}': there is no such file or folder", path));
  std::vector<std::string> npz, npy, pictures;
  const auto add = [&](const fs::path& file) {
    const std::string ending = ending_of(file);
    if (ending == ".npz") npz.push_back(file.string());
    if (ending == ".npy") npy.push_back(file.string());
    if (is_picture(ending)) pictures.push_back(file.string());
  };
  if (fs::is_directory(status)) {
    fs::recursive_directory_iterator at(path, error);
    for (; !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
      // Links that lead nowhere are taken, too, so that reading them says so.
      std::error_code unresolved;
      const bool leads_nowhere = at->is_symlink(unresolved) && !fs::exists(at->path(), unresolved);
      if (!leads_nowhere && !at->is_regular_file(unresolved)) continue;
      if (!at->path().filename().string().starts_with('.')) add(at->path());
    }
    if (error) throw Error(ErrorCode::io, fmt::format("'{}' could not be read: {}", path, error.message()));
  } else {
    add(path);
  }
  const int kinds = !npz.empty() + !npy.empty() + !pictures.empty();
  if (kinds == 0)
    throw Error(ErrorCode::invalid_argument, fmt::format("'{}' has no calibration data: no .npz, .npy or picture ({})",
                                                         path, fmt::join(picture_endings, ", ")));
  if (kinds > 1)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("'{}' has {} .npz, {} .npy and {} pictures: calibration data is of one kind", path,
                            npz.size(), npy.size(), pictures.size()));
  kind_ = !npz.empty() ? Kind::npz : !npy.empty() ? Kind::npy : Kind::pictures;
  files_ = !npz.empty() ? npz : !npy.empty() ? npy : pictures;
  std::sort(files_.begin(), files_.end());
  const auto most = static_cast<size_t>(options_.max_samples);
  if (kind_ == Kind::pictures && most > 0 && files_.size() > most) {
    std::vector<std::string> some;
    for (size_t i = 0; i < most; ++i) some.push_back(files_[i * files_.size() / most]);
    files_ = std::move(some);
  }
}

double CalibrationData::fraction() const {
  return static_cast<double>(next_file_ - std::min(next_file_, ahead_.size())) / static_cast<double>(files_.size());
}

void CalibrationData::check_model(const std::vector<TensorInfo>& inputs) {
  if (inputs.empty()) throw Error(ErrorCode::invalid_argument, "the model has no inputs, and nothing to calibrate");
  if (kind_ == Kind::npy && inputs.size() != 1) {
    std::vector<std::string> names;
    for (const TensorInfo& info : inputs) names.push_back(info.name);
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("'{}': .npy files are for models of one input; this one has {}: give .npz files with arrays "
                    "of these names",
                    files_[0], fmt::join(names, ", ")));
  }
  if (kind_ == Kind::pictures) {
    options_.pictures = completed(options_.pictures, inputs);
    preparation_ = to_string(options_.pictures);
  }
  const Dims& first = inputs[0].dims;
  const int64_t fixed = first.empty() ? -1 : first[0];
  if (fixed > 0 && options_.batch > 0 && options_.batch != fixed)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the model takes batches of {}, not of {} (--batch)", fixed, options_.batch));
  if (fixed > 0) options_.batch = fixed;
  if (kind_ == Kind::pictures && options_.batch == 0) options_.batch = 1;
  is_checked_ = true;
}

CalibrationData::Samples CalibrationData::read_arrays(const std::string& path,
                                                      const std::vector<TensorInfo>& inputs) const {
  NamedTensors arrays;
  if (kind_ == Kind::npz)
    arrays = camshaft::read_arrays(path);
  else
    arrays.emplace_back(inputs[0].name, read_npy(path));
  Samples samples;
  for (const auto& [name, array] : arrays)
    if (std::none_of(inputs.begin(), inputs.end(), [&, &n = name](const TensorInfo& i) { return i.name == n; }))
      throw Error(ErrorCode::invalid_argument, fmt::format("'{}': the model has no input '{}'", path, name));
  for (const TensorInfo& info : inputs) {
    const auto found =
        std::find_if(arrays.begin(), arrays.end(), [&](const auto& item) { return item.first == info.name; });
    if (found == arrays.end())
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("'{}': there is no array for the input '{}' ({})", path, info.name, info.type));
    Tensor array = from_numpy(found->second, info.dtype, fmt::format("'{}': input '{}'", path, info.name));
    bool is_shared = info.dims.empty();
    if (is_shared) {
      if (!array.dims().empty()) fail_shape(path, info, array);
    } else {
      if (array.dims().size() + 1 == info.dims.size()) array = with_sample_axis(array);
      if (!fits(info, array.dims(), 1)) fail_shape(path, info, array);
      const int64_t count = array.dims()[0];
      if (samples.count == 0) {
        samples.count = count;
      } else if (count != samples.count) {
        if (!fits(info, array.dims(), 0)) fail_shape(path, info, array);
        is_shared = true;
      }
    }
    samples.arrays.push_back(std::move(array));
    samples.is_shared.push_back(is_shared);
  }
  if (std::all_of(samples.is_shared.begin(), samples.is_shared.end(), [](bool shared) { return shared; }))
    samples.count = 1;
  return samples;
}

CalibrationData::Samples CalibrationData::read(size_t file, const std::vector<TensorInfo>& inputs) const {
  if (kind_ != Kind::pictures) return read_arrays(files_[file], inputs);
  return {{with_sample_axis(read_picture(files_[file], options_.pictures))}, {false}, 1, 0};
}

bool CalibrationData::advance(const std::vector<TensorInfo>& inputs) {
  while (samples_.taken == samples_.count) {
    // Decoding takes about as long as a network does: it goes on beside it.
    const size_t most = kind_ == Kind::pictures ? 2 * static_cast<size_t>(available_cores()) : 0;
    while (ahead_.size() < most && next_file_ < files_.size())
      ahead_.push_back(
          std::async(std::launch::async, [this, file = next_file_++, inputs] { return read(file, inputs); }));
    if (!ahead_.empty()) {
      samples_ = ahead_.front().get();
      ahead_.pop_front();
    } else if (next_file_ < files_.size()) {
      samples_ = read(next_file_++, inputs);
    } else {
      return false;
    }
  }
  return true;
}

bool CalibrationData::next(const std::vector<TensorInfo>& inputs, NamedTensors& batch) {
  if (!is_checked_) check_model(inputs);
  std::vector<Gathered> gathered(inputs.size());
  std::vector<Tensor> shared(inputs.size());
  int64_t count = 0;
  const int64_t left = options_.max_samples > 0 ? options_.max_samples - given_ : INT64_MAX;
  const int64_t wanted = options_.batch > 0 ? options_.batch : left;
  if (left <= 0) return false;
  if (options_.batch > 0 && !inputs[0].dims.empty() && inputs[0].dims[0] > 0 && left < wanted) {
    if (given_ == 0) fail_batch(left, wanted);
    return false;
  }
  while (count < std::min(wanted, left) && advance(inputs)) {
    const int64_t taken = std::min({wanted - count, left - count, samples_.count - samples_.taken});
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (samples_.is_shared[i])
        shared[i] = samples_.arrays[i];
      else
        gathered[i].add(samples_.arrays[i], samples_.taken, taken);
    }
    samples_.taken += taken;
    count += taken;
    if (options_.batch == 0) break;  // as each file has them
  }
  if (count == 0) return false;
  const bool is_fixed = !inputs[0].dims.empty() && inputs[0].dims[0] > 0;
  if (is_fixed && count < wanted) {
    if (given_ == 0) fail_batch(count, wanted);
    left_out_ = count;
    return false;
  }
  given_ += count;
  for (size_t i = 0; i < inputs.size(); ++i)
    batch.emplace_back(inputs[i].name, shared[i].defined() ? shared[i] : gathered[i].tensor());
  return true;
}

}  // namespace camshaft::tools
