// Calibrating through the C and the C++ interface.
#include <gtest/gtest.h>

#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/temporary_folder.h"
#include "camshaft/camshaft.hpp"
#include "onnx/proto_writer.h"

namespace camshaft::calibration_test {
namespace {

/// y = x @ w: x is f32 [n, 2].
std::string product_model() {
  onnx::ModelProto model;
  model.ir_version = 8;
  model.opsets[""] = 17;
  onnx::NodeProto product;
  product.op_type = "MatMul";
  product.inputs = {"x", "w"};
  product.outputs = {"y"};
  model.graph.nodes = {product};
  onnx::TensorProto weights;
  weights.name = "w";
  weights.dims = {2, 2};
  weights.data_type = 1;  // FLOAT
  weights.float_data = {1, 2, 3, 4};
  model.graph.initializers = {weights};
  onnx::TypeProto rows;
  rows.kind = onnx::TypeProto::Kind::tensor;
  rows.elem_type = 1;
  rows.shape = {{.value = {}, .param = "n"}, {.value = 2, .param = ""}};
  model.graph.name = "product";
  model.graph.inputs = {{"x", rows}};
  model.graph.outputs = {{"y", rows}};
  return onnx::model_bytes(model);
}

class CalibrationApi : public testing::Test {
 protected:
  void SetUp() override { std::ofstream(model, std::ios::binary) << product_model(); }
  static Tensor row(float a, float b) { return Tensor::of<float>(DType::f32, {1, 2}, {a, b}); }

  TemporaryFolder folder;
  const std::string model = folder.file("product.onnx"), output = folder.file("ranges");
};

TEST_F(CalibrationApi, BatchesOfTheCallersGiveRanges) {
  int given = 0;
  CalibrationOptions options;
  options.set("method", "minmax").set("tuning", "heuristic");
  const CalibrationReport report = calibrate(
      model, options,
      [&](const std::vector<TensorInfo>& inputs, NamedTensors& batch) {
        EXPECT_EQ(inputs.size(), 1U);
        EXPECT_EQ(inputs[0].type, "f32[n, 2]");
        EXPECT_EQ(inputs[0].dims, (Dims{-1, 2}));
        if (given == 3) return false;
        batch.emplace_back("x", row(static_cast<float>(given), -2));
        ++given;
        return true;
      },
      output);
  EXPECT_EQ(report.method, "minmax");
  EXPECT_EQ(report.samples, 3);
  EXPECT_EQ(report.batches, 3);
  ASSERT_EQ(report.tensors.size(), 1U);
  const CalibratedTensor& x = report.tensors[0];
  EXPECT_EQ(x.range.tensor, "x");
  EXPECT_EQ(x.range.min, -2);
  EXPECT_EQ(x.range.max, 2);
  EXPECT_EQ(x.count, 6);
  EXPECT_EQ(x.zeros, 1);
  EXPECT_EQ(report.warnings.size(), 1U);  // three samples are few
  const std::vector<TensorRange> read = read_calibration(output);
  ASSERT_EQ(read.size(), 1U);
  EXPECT_EQ(read[0].tensor, "x");
  EXPECT_EQ(read[0].max, 2);
  // The build that the ranges are for takes them.
  BuildOptions build;
  build.set("int8", true).set("calibration", output).set("tuning", "heuristic").set("verify", false);
  EXPECT_EQ(Builder(std::move(build)).build(model).inputs().size(), 1U);
}

TEST_F(CalibrationApi, NothingIsWrittenWhenItFails) {
  struct Mine : std::runtime_error {
    using std::runtime_error::runtime_error;
  };
  const auto none = [](const std::vector<TensorInfo>&, NamedTensors&) { return false; };
  EXPECT_THROW(calibrate(model, {}, none, output), Error);
  const auto throws = [](const std::vector<TensorInfo>&, NamedTensors&) -> bool { throw Mine("mine"); };
  EXPECT_THROW(calibrate(model, {}, throws, output), Mine);
  const auto wrong = [](const std::vector<TensorInfo>&, NamedTensors& batch) {
    batch.emplace_back("x", Tensor(DType::f32, {1, 3}));
    return true;
  };
  EXPECT_THROW(calibrate(model, {}, wrong, output), Error);
  const Cancellation cancellation;
  CalibrationOptions options;
  options.set_cancellation(cancellation);
  const auto cancels = [&](const std::vector<TensorInfo>&, NamedTensors& batch) {
    cancellation.cancel();
    batch.emplace_back("x", row(1, 2));
    return true;
  };
  try {
    calibrate(model, options, cancels, output);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::cancelled);
  }
  CalibrationOptions stops;
  stops.set_progress([](std::string_view, double) { throw Mine("stop"); });
  EXPECT_THROW(calibrate(model, stops, none, output), Mine);
  EXPECT_EQ(folder.entries(), 1U);
}

TEST_F(CalibrationApi, OptionsAreThoseOfACalibration) {
  EXPECT_THROW(CalibrationOptions().set("fp16", true), Error);
  EXPECT_THROW(BuildOptions().set("method", "mse"), Error);
  EXPECT_THROW(CalibrationOptions().set("method", "most"), Error);
  EXPECT_THROW(CalibrationOptions().set("percentile", 0), Error);
  EXPECT_THROW(CalibrationOptions().set("percentile", 100.5), Error);
  EXPECT_THROW(CalibrationOptions().set("format", "xml"), Error);
  EXPECT_EQ(CalibrationOptions().get("percentile").number(), 99.99);
  Profile four;
  four.inputs["x"] = {{4, 2}, {4, 2}, {4, 2}};
  CalibrationOptions options;
  options.add_profile(four);
  EXPECT_THROW(calibrate(model, options,
                         [](const std::vector<TensorInfo>& inputs, NamedTensors& batch) {
                           EXPECT_EQ(inputs[0].dims, (Dims{4, 2}));
                           batch.emplace_back("x", row(1, 2));
                           return true;
                         }),
               Error);
}

TEST_F(CalibrationApi, NullPointersAreRefusedByName) {
  const auto never = [](void*, const camshaft_record*, camshaft_tensors*) -> int32_t { return 0; };
  EXPECT_EQ(camshaft_calibrate_file(nullptr, nullptr, never, nullptr, nullptr, nullptr), CAMSHAFT_INVALID_ARGUMENT);
  EXPECT_STREQ(camshaft_error_message(), "the argument 'path' is a null pointer");
  EXPECT_EQ(camshaft_calibrate_file(model.c_str(), nullptr, nullptr, nullptr, nullptr, nullptr),
            CAMSHAFT_INVALID_ARGUMENT);
  EXPECT_STREQ(camshaft_error_message(), "the argument 'next' is a null pointer");
  EXPECT_EQ(camshaft_calibration_read(model.c_str(), nullptr), CAMSHAFT_INVALID_ARGUMENT);
  EXPECT_EQ(camshaft_picture_decode(nullptr, 0, nullptr), CAMSHAFT_INVALID_ARGUMENT);
}

TEST_F(CalibrationApi, PicturesAreDecoded) {
  const std::string picture = "P6\n2 1\n255\nabcdef";
  const Tensor pixels = decode_picture(std::as_bytes(std::span(picture)));
  EXPECT_EQ(pixels, Tensor::of<char>(DType::u8, {1, 2, 3}, {'a', 'b', 'c', 'd', 'e', 'f'}));
  const std::string text = "no picture";
  EXPECT_THROW(decode_picture(std::as_bytes(std::span(text))), Error);
  EXPECT_THROW(read_calibration(model), Error);
}

}  // namespace
}  // namespace camshaft::calibration_test
