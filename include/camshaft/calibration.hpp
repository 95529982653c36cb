// The ranges of tensors that int8 needs, from data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "camshaft/camshaft.h"
#include "camshaft/options.hpp"
#include "camshaft/report.hpp"
#include "camshaft/tensor.hpp"

namespace camshaft {
inline namespace v1 {

/// A tensor of the model, and what its numbers are quantised over: those outside are clipped.
struct TensorRange {
  std::string tensor;
  double min = 0, max = 0;
};

/// What calibration saw of a tensor.
struct CalibratedTensor {
  TensorRange range;
  bool has_range = false;  ///< a finite number was seen; else the range is 0
  double seen_min = 0, seen_max = 0;
  int64_t count = 0, zeros = 0, nans = 0, infinities = 0;  ///< elements in all, and of these kinds
};

struct CalibrationReport {
  std::string method;
  std::vector<CalibratedTensor> tensors;
  int64_t batches = 0, samples = 0;
  /// Making the engine, waiting for data, running with the numbers counted, and choosing ranges.
  double seconds_build = 0, seconds_data = 0, seconds_run = 0, seconds_ranges = 0;
  std::vector<std::string> warnings;  ///< what looks wrong, in words
};

/// Fills in the next batch, a tensor for each of the model's inputs; false: there is no more.
using NextBatch = std::function<bool(const std::vector<TensorInfo>& inputs, NamedTensors& batch)>;

namespace detail {

/// What calibrate() does; its report as the C interface gives it.
inline Record calibrate(const std::string& model_path, const CalibrationOptions& options, const NextBatch& next,
                        const std::string& output) {
  struct Source {
    const NextBatch& next;
    std::vector<TensorInfo> inputs;
    std::exception_ptr thrown;
  } source{next, {}, nullptr};
  camshaft_record* record = nullptr;
  const camshaft_status status = camshaft_calibrate_file(
      model_path.c_str(), options.handle(),
      [](void* user, const camshaft_record* inputs, camshaft_tensors* batch) -> int32_t {
        auto& own = *static_cast<Source*>(user);
        try {
          if (own.inputs.empty())
            for (size_t i = 0; i < camshaft_record_size(inputs); ++i)
              own.inputs.push_back(tensor_info(Record::borrowed(camshaft_record_at(inputs, i))));
          NamedTensors given;
          if (!own.next(own.inputs, given)) return 0;
          for (const auto& [name, tensor] : given) check(camshaft_tensors_add(batch, name.c_str(), tensor.handle()));
          return 1;
        } catch (...) {
          own.thrown = std::current_exception();
          return -1;
        }
      },
      &source, output.empty() ? nullptr : output.c_str(), &record);
  if (source.thrown) std::rethrow_exception(source.thrown);
  if (status == CAMSHAFT_CANCELLED) options.rethrow();
  check(status);
  return Record(record);
}

}  // namespace detail

/// Runs a model in fp32 on batches of data, chooses a range for each tensor that a build with int8 needs one of, and
/// writes them to a file, whole or not at all; an empty `output`: to none. Throws Error like Builder::build(), also
/// Error(invalid_argument) for no data, data without a finite number, and batches that do not fit the inputs; and what
/// `next` throws.
inline CalibrationReport calibrate(const std::string& model_path, const CalibrationOptions& options,
                                   const NextBatch& next, const std::string& output = "") {
  const Record made = detail::calibrate(model_path, options, next, output);
  CalibrationReport report;
  report.method = made["method"].text();
  report.tensors = made["tensors"].list([](const Record& r) {
    return CalibratedTensor{{r["name"].text(), r["min"].number(), r["max"].number()},
                            !r["min"].is_null(),
                            r["seen_min"].number(),
                            r["seen_max"].number(),
                            r["count"].integer(),
                            r["zeros"].integer(),
                            r["nans"].integer(),
                            r["infinities"].integer()};
  });
  report.batches = made["batches"].integer();
  report.samples = made["samples"].integer();
  report.seconds_build = made["seconds_build"].number();
  report.seconds_data = made["seconds_data"].number();
  report.seconds_run = made["seconds_run"].number();
  report.seconds_ranges = made["seconds_ranges"].number();
  report.warnings = made["warnings"].texts();
  return report;
}

/// The ranges in a file that calibrate() or TensorRT wrote. Throws Error(io), and Error(invalid_argument) that names
/// the line and what is wrong in it.
inline std::vector<TensorRange> read_calibration(const std::string& path) {
  return detail::record_of([&](camshaft_record** r) { return camshaft_calibration_read(path.c_str(), r); })["tensors"]
      .list([](const Record& r) {
        return TensorRange{r["name"].text(), r["min"].number(), r["max"].number()};
      });
}

/// The pixels of a picture (BMP, JPEG, PNG, PNM or WebP): u8 [height, width, 3] in the order red, green, blue, or
/// [height, width, 1] of gray. Throws Error(invalid_argument), Error(unsupported) for JPEG 2000 and TIFF.
inline Tensor decode_picture(std::span<const std::byte> bytes) {
  camshaft_tensor* pixels = nullptr;
  detail::check(camshaft_picture_decode(bytes.data(), bytes.size(), &pixels));
  return Tensor(pixels);
}

}  // namespace v1
}  // namespace camshaft
