// Ranges of tensors from data, and the pictures that data is often made of.
#include "api/describe.h"
#include "api/options.h"
#include "api/record.h"
#include "api/status.h"
#include "api/tensor.h"
#include "builder/calibrate.h"
#include "quantize/calibration_file.h"
#include "reference/pictures/picture.h"

namespace camshaft::api {

namespace {

/// What the caller's function gives, and what it is given in.
class CallersBatches {
 public:
  CallersBatches(camshaft_batch_function next, void* user) : next_(given(next, "next")), user_(user) {}

  bool operator()(const std::vector<TensorInfo>& inputs, Batch& batch) {
    if (!inputs_) inputs_.reset(new_record(describe_all(inputs)));
    batch_.items.clear();
    const int32_t answer = next_(user_, inputs_.get(), &batch_);
    if (answer != 0 && answer != 1)
      throw Error(ErrorCode::cancelled, "cancelled by the function that gives batches of calibration data");
    for (auto& [name, tensor] : batch_.items) {
      tensor = host_tensor_of(tensor);  // what counts its numbers runs there
      batch.emplace_back(name, tensor.view);
    }
    return answer == 1;
  }

 private:
  struct Free {
    void operator()(camshaft_record* record) const { camshaft_record_free(record); }
  };
  camshaft_batch_function next_;
  void* user_;
  std::unique_ptr<camshaft_record, Free> inputs_;
  camshaft_tensors batch_;
};

nlohmann::json tensor_record(const CalibratedTensor& tensor) {
  const cpu::NumberSummary& seen = tensor.seen;
  nlohmann::json described = {{"name", tensor.name},
                              {"count", seen.count},
                              {"zeros", seen.zeros},
                              {"nans", seen.nans},
                              {"infinities", seen.infinities}};
  const bool has_range = seen.finite() > 0;
  const auto number = [&](float x) { return has_range ? nlohmann::json(x) : nlohmann::json(); };
  described["min"] = number(tensor.range.min);
  described["max"] = number(tensor.range.max);
  described["seen_min"] = number(seen.min);
  described["seen_max"] = number(seen.max);
  return described;
}

nlohmann::json report_record(const CalibrationReport& report) {
  nlohmann::json tensors = nlohmann::json::array();
  for (const CalibratedTensor& tensor : report.tensors) tensors.push_back(tensor_record(tensor));
  return {{"method", report.calibration.method},
          {"tensors", std::move(tensors)},
          {"batches", report.batches},
          {"samples", report.samples},
          {"seconds_build", report.seconds_build},
          {"seconds_data", report.seconds_data},
          {"seconds_run", report.seconds_run},
          {"seconds_ranges", report.seconds_ranges},
          {"warnings", report.warnings}};
}

nlohmann::json calibration_record(const Calibration& calibration) {
  nlohmann::json tensors = nlohmann::json::array();
  for (const auto& [name, range] : calibration.ranges)
    tensors.push_back({{"name", name}, {"min", range.min}, {"max", range.max}});
  return {{"method", calibration.method}, {"tensors", std::move(tensors)}};
}

}  // namespace

}  // namespace camshaft::api

using namespace camshaft;
using namespace camshaft::api;

camshaft_status camshaft_calibrate_file(const char* path, const camshaft_options* options, camshaft_batch_function next,
                                        void* user, const char* output, camshaft_record** report) {
  return guarded([&] {
    Settings settings = settings_of(options, CAMSHAFT_CALIBRATION).settings;
    CallersBatches batches(next, user);
    const CalibrationReport made =
        calibrate(given(path, "path"), settings.build, settings.calibration,
                  [&](const std::vector<TensorInfo>& inputs, Batch& batch) { return batches(inputs, batch); });
    if (output != nullptr) write_calibration(made.calibration, output, settings.calibration_format);
    if (report != nullptr) *report = new_record(report_record(made));
  });
}

camshaft_status camshaft_calibration_read(const char* path, camshaft_record** calibration) {
  return guarded([&] {
    given(calibration, "calibration");
    *calibration = new_record(calibration_record(read_calibration(given(path, "path"))));
  });
}

camshaft_status camshaft_picture_decode(const void* data, size_t bytes, camshaft_tensor** pixels) {
  return guarded([&] {
    const auto* begin = static_cast<const uint8_t*>(given(data, "data"));
    give(pixels, "pixels", [&] { return new camshaft_tensor(handle_of(ops::decode_picture({begin, bytes}))); });
  });
}
