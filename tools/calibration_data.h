// The data of a calibration: arrays and pictures in files, as batches of a model's inputs.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <string>
#include <vector>

#include "camshaft/report.hpp"
#include "camshaft/tensor.hpp"
#include "tools/picture.h"

namespace camshaft::tools {

struct CalibrationDataOptions {
  int64_t batch = 0;        ///< samples in each batch; 0: the model's, or as many as each file has
  int64_t max_samples = 0;  ///< 0: all; of pictures as many, evenly spread over all that there are
  /// Of pictures; sizes of 0 are the model's, and so is where channels are.
  PicturePreparation pictures;
};

/// A file or a folder, in whose sub-folders is looked, too: .npz files (arrays by the names of inputs), .npy files (of
/// a model of one input), or pictures (of a model of one input, an image of three channels). Files are taken in the
/// order of their paths. An array has an axis of samples in front, or is one sample without that axis.
class CalibrationData {
 public:
  /// Throws Error(io) for what is not there, and Error(invalid_argument) for a folder without such files, or with files
  /// of several of these kinds.
  CalibrationData(const std::string& path, CalibrationDataOptions options);

  /// The next batch; false when there is no more. Throws Error(invalid_argument) that names the file, what it has and
  /// what the model takes.
  bool next(const std::vector<TensorInfo>& inputs, NamedTensors& batch);

  /// In the order that they are read in.
  const std::vector<std::string>& files() const { return files_; }
  bool has_pictures() const { return kind_ == Kind::pictures; }
  /// Of the files, how many have been read in full.
  double fraction() const;
  /// What was made of pictures, in words; empty for arrays.
  const std::string& preparation() const { return preparation_; }
  /// Samples at the end that were too few for a batch of the model's, and were left out.
  int64_t left_out() const { return left_out_; }

 private:
  enum class Kind { npz, npy, pictures };

  /// Samples of one file: an array for each input, and how many there are.
  struct Samples {
    std::vector<Tensor> arrays;   // in the order of the inputs
    std::vector<bool> is_shared;  // the same for all samples
    int64_t count = 0, taken = 0;
  };
  void check_model(const std::vector<TensorInfo>& inputs);
  Samples read(size_t file, const std::vector<TensorInfo>& inputs) const;
  Samples read_arrays(const std::string& path, const std::vector<TensorInfo>& inputs) const;
  /// Makes `samples_` ones that are not taken yet; false at the end.
  bool advance(const std::vector<TensorInfo>& inputs);

  CalibrationDataOptions options_;
  Kind kind_ = Kind::npz;
  std::vector<std::string> files_;
  size_t next_file_ = 0;
  std::deque<std::future<Samples>> ahead_;  // pictures that are being decoded
  Samples samples_;
  int64_t given_ = 0, left_out_ = 0;
  std::string preparation_;
  bool is_checked_ = false;
};

}  // namespace camshaft::tools
