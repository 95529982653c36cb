#include <gtest/gtest.h>

#include "server/core/make_pending.h"
#include "server/core/status.h"

namespace camshaft::server::check_request_test {
namespace {

NamedTensor texts(Dims shape, const std::string& bytes) {
  auto held = std::make_shared<std::string>(bytes);
  return {"x", DType::string, std::move(shape), {std::as_bytes(std::span(*held)), held}};
}

std::string text_element(const std::string& text) {
  const auto length = static_cast<uint32_t>(text.size());
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + text;
}

/// Empty: it was accepted.
std::string check(const Signature& signature, std::vector<NamedTensor> inputs,
                  std::vector<RequestedOutput> outputs = {}) {
  Request request;
  request.inputs = std::move(inputs);
  request.outputs = std::move(outputs);
  ModelStatistics statistics;
  Pending pending(
      std::move(request), [](const Response&) {}, statistics, nullptr);
  try {
    check_request(signature, pending);
    return "";
  } catch (const ServerError& error) {
    EXPECT_EQ(error.code(), StatusCode::invalid_argument);
    return error.what();
  }
}

TEST(CheckRequest, TakesWhatFits) {
  EXPECT_EQ(check(one_input(8, {-1, 2}), {float_tensor("x", {8, 5, 2}, 1)}), "");
  EXPECT_EQ(check(one_input(0, {3}), {float_tensor("x", {3}, 1)}), "");
  EXPECT_EQ(check(one_input(0, {}), {float_tensor("x", {}, 1)}), "");
  EXPECT_EQ(check(one_input(8, {-1}), {float_tensor("x", {2, 0}, 1)}), "");
}

TEST(CheckRequest, NamesWhatDoesNot) {
  const Signature signature = one_input(4, {2});
  EXPECT_EQ(check(signature, {}),
            "expected 1 inputs but got 0 inputs for model 'm'. Got input(s) [], but missing required input(s) ['x']. "
            "Please provide all required input(s).");
  EXPECT_EQ(check(signature, {float_tensor("z", {1, 2}, 0)}), "unexpected inference input 'z' for model 'm'");
  EXPECT_EQ(check(signature, {float_tensor("x", {1, 2}, 0), float_tensor("x", {1, 2}, 0)}),
            "input 'x' already exists in request");
  EXPECT_EQ(check(signature, {float_tensor("x", {5, 2}, 0)}), "inference request batch-size must be <= 4 for 'm'");
  EXPECT_EQ(check(signature, {float_tensor("x", {0, 2}, 0)}), "input 'x' for model 'm' has an empty batch");
  EXPECT_EQ(check(signature, {float_tensor("x", {}, 0)}),
            "input 'x' has no shape but model requires batch dimension for 'm'");
  EXPECT_EQ(check(signature, {float_tensor("x", {1, 3}, 0)}).substr(0, 78),
            "unexpected shape for input 'x' for model 'm'. Expected [-1,2], got [1,3]. NOTE");
  NamedTensor integers = float_tensor("x", {1, 2}, 0);
  integers.dtype = DType::i32;
  EXPECT_EQ(check(signature, {integers}), "inference input 'x' data-type is 'INT32', but model 'm' expects 'FP32'");
  NamedTensor shorter = float_tensor("x", {1, 2}, 0);
  shorter.data.span = shorter.data.span.first(7);
  EXPECT_EQ(check(signature, {shorter}), "input byte size mismatch for input 'x' for model 'm'. Expected 8, got 7");
  EXPECT_EQ(check(signature, {float_tensor("x", {1, 2}, 0)}, {{"z", 0, {}, nullptr}}),
            "unexpected inference output 'z' for model 'm'");
  EXPECT_EQ(check(signature, {float_tensor("x", {1, 2}, 0)}, {{"y", 0, {}, nullptr}, {"y", 0, {}, nullptr}}),
            "output 'y' already exists in request");
}

TEST(CheckRequest, RefusesSizesThatOverflow) {
  NamedTensor tensor = float_tensor("x", {1, 2}, 0);
  tensor.shape = {1, int64_t{1} << 62};
  EXPECT_NE(check(one_input(4, {-1}), {tensor}), "");
  tensor.shape = {4, int64_t{1} << 62};
  EXPECT_NE(check(one_input(4, {-1}), {tensor}), "");
  tensor.shape = {1, -5};
  EXPECT_NE(check(one_input(4, {-1}), {tensor}), "");
}

TEST(CheckRequest, ChecksEachText) {
  Signature signature = one_input(4, {2});
  signature.inputs[0].dtype = DType::string;
  EXPECT_EQ(check(signature, {texts({1, 2}, text_element("a") + text_element(""))}), "");
  EXPECT_EQ(check(signature, {texts({1, 2}, text_element("a"))}),
            "expected 2 strings for inference input 'x' of model 'm', got 1");
  EXPECT_EQ(check(signature, {texts({1, 2}, text_element("a") + text_element("bc").substr(0, 5))}),
            "incomplete string data for inference input 'x' of model 'm': expecting a string of 2 bytes, got 1");
  EXPECT_NE(check(signature, {texts({1, 2}, text_element("a") + text_element("b") + "c")}), "");
}

TEST(Signature, ReshapesBothWays) {
  TensorSpec spec;
  spec.reshaped = true;
  spec.dims = {-1, 4};
  spec.model_dims = {2, -1, 2};
  EXPECT_EQ(model_shape(spec, {7, 4}), Dims({2, 7, 2}));
  EXPECT_EQ(client_shape(spec, {2, 7, 2}), Dims({7, 4}));
}

TEST(Signature, RefusesShapesOfOtherSizes) {
  const auto signature_of = [](const std::string& reshape) {
    return make_signature(parse_model_config_json(
        R"({"name": "m", "input": [{"name": "x", "data_type": "TYPE_FP32", "dims": [-1, 4], "reshape": {"shape": )" +
        reshape + "}}]}"));
  };
  EXPECT_EQ(signature_of("[2, -1, 2]").inputs[0].model_dims, Dims({2, -1, 2}));
  EXPECT_THROW(signature_of("[2, -1, 3]"), ServerError);
  EXPECT_THROW(signature_of("[-1, -1, 4]"), ServerError);
}

}  // namespace
}  // namespace camshaft::server::check_request_test
