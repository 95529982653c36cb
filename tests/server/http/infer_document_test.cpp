#include "server/http/infer_document.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "server/http/element_writer.h"
#include "server/seed.h"

namespace camshaft::server::infer_document_test {
namespace {

constexpr uint64_t limit = 1 << 20;

template <class T>
std::vector<T> values_of(const InferDocument::Input& input) {
  std::vector<T> values(input.data->size() / sizeof(T));
  std::memcpy(values.data(), input.data->data(), input.data->size());
  return values;
}

InferDocument::Input input_of(const std::string& members) {
  return parse_infer_document(R"({"inputs":[{"name":"x",)" + members + "}]}", limit).inputs.at(0);
}

std::string refusal(const std::string& json) {
  try {
    parse_infer_document(json, limit);
  } catch (const ServerError& error) {
    EXPECT_EQ(error.code(), StatusCode::invalid_argument);
    return error.what();
  }
  return "";
}

std::string input_refusal(const std::string& members) {
  return refusal(R"({"inputs":[{"name":"x",)" + members + "}]}");
}

TEST(InferDocument, FlatAndNestedLists) {
  const std::vector<float> expected = {1.5f, -2, 3, 4};
  EXPECT_EQ(values_of<float>(input_of(R"("shape":[2,2],"datatype":"FP32","data":[1.5,-2,3,4])")), expected);
  EXPECT_EQ(values_of<float>(input_of(R"("shape":[2,2],"datatype":"FP32","data":[[1.5,-2],[3,4.0e0]])")), expected);
  // The data before what they are.
  EXPECT_EQ(values_of<float>(input_of(R"("data":[[1.5,-2],[3,4]],"datatype":"FP32","shape":[2,2])")), expected);
}

TEST(InferDocument, EachTypeAndItsRange) {
  EXPECT_EQ(values_of<uint8_t>(input_of(R"("shape":[3],"datatype":"BOOL","data":[true,false,1])")),
            (std::vector<uint8_t>{1, 0, 1}));
  EXPECT_EQ(values_of<int8_t>(input_of(R"("shape":[2],"datatype":"INT8","data":[-128,127])")),
            (std::vector<int8_t>{-128, 127}));
  EXPECT_EQ(values_of<uint16_t>(input_of(R"("shape":[1],"datatype":"UINT16","data":[65535])")),
            (std::vector<uint16_t>{65535}));
  EXPECT_EQ(values_of<int64_t>(
                input_of(R"("shape":[2],"datatype":"INT64","data":[-9223372036854775808,9223372036854775807])")),
            (std::vector<int64_t>{std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()}));
  EXPECT_EQ(values_of<uint64_t>(input_of(R"("shape":[1],"datatype":"UINT64","data":[18446744073709551615])")),
            (std::vector<uint64_t>{std::numeric_limits<uint64_t>::max()}));
  // 16777217.0000001 is nearer to 16777218 than to 16777216; by way of a double it were a tie.
  EXPECT_EQ(values_of<float>(input_of(R"("shape":[1],"datatype":"FP32","data":[16777217.00000000000000000001])"))[0],
            16777218.0f);
  EXPECT_EQ(values_of<float>(input_of(R"("shape":[2],"datatype":"FP32","data":[1e-60,-1e-60])"))[0], 0.0f);
  EXPECT_TRUE(std::signbit(values_of<float>(input_of(R"("shape":[1],"datatype":"FP32","data":[-1e-60])"))[0]));
  for (const char* wrong :
       {R"("shape":[1],"datatype":"INT8","data":[128])", R"("shape":[1],"datatype":"UINT8","data":[-1])",
        R"("shape":[1],"datatype":"INT32","data":[1.5])", R"("shape":[1],"datatype":"INT32","data":["1"])",
        R"("shape":[1],"datatype":"INT64","data":[9223372036854775808])",
        R"("shape":[1],"datatype":"UINT64","data":[18446744073709551616])",
        R"("shape":[1],"datatype":"FP32","data":[1e39])", R"("shape":[1],"datatype":"FP32","data":[true])",
        R"("shape":[1],"datatype":"BOOL","data":[2])", R"("shape":[1],"datatype":"BYTES","data":[1])",
        R"("shape":[1],"datatype":"FP32","data":[null])", R"("shape":[1],"datatype":"FP16","data":[1])",
        R"("shape":[1],"datatype":"BF16","data":[1])"})
    EXPECT_NE(input_refusal(wrong), "") << wrong;
}

TEST(InferDocument, Strings) {
  const InferDocument::Input input = input_of(R"("shape":[2,1],"datatype":"BYTES","data":[["a\u00e4"],[""]])");
  const std::string expected("\x03\0\0\0a\xc3\xa4\0\0\0\0", 11);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(input.data->data()), input.data->size()), expected);
}

TEST(InferDocument, ParametersAndOutputs) {
  const InferDocument document = parse_infer_document(
      R"({"id":"7","parameters":{"sequence_id":18446744073709551615,"priority":2,"text":"t","real":1.5,"flag":true},
          "later":{"a":[{"b":[]}]},
          "inputs":[{"name":"x","shape":[],"datatype":"INT32","parameters":{"binary_data_size":4,"mine":"x"}},
                    {"name":"y","shape":[0],"datatype":"INT32","parameters":{"shared_memory_region":"r","shared_memory_byte_size":0}}],
          "outputs":[{"name":"o","parameters":{"binary_data":true,"classification":3}},
                     {"name":"p","parameters":{"shared_memory_region":"r","shared_memory_offset":8,"shared_memory_byte_size":16}}]})",
      limit);
  EXPECT_EQ(document.id, "7");
  EXPECT_EQ(std::get<uint64_t>(document.parameters.at("sequence_id")), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(std::get<int64_t>(document.parameters.at("priority")), 2);
  EXPECT_EQ(std::get<double>(document.parameters.at("real")), 1.5);
  EXPECT_TRUE(std::get<bool>(document.parameters.at("flag")));
  EXPECT_EQ(document.inputs[0].binary_size, 4u);
  EXPECT_EQ(document.inputs[1].shared->region, "r");
  EXPECT_TRUE(document.outputs[0].binary);
  EXPECT_EQ(document.outputs[0].classes, 3);
  EXPECT_EQ(document.outputs[1].shared->offset, 8u);
}

TEST(InferDocument, WhatIsRefused) {
  EXPECT_NE(refusal("").find("failed to parse the request JSON buffer"), std::string::npos);
  for (const char* json :
       {"[]",
        "1",
        "null",
        "{",
        "{}",
        R"({"inputs":{}})",
        R"({"inputs":1})",
        R"({"inputs":[1]})",
        R"({"inputs":[[]]})",
        R"({"inputs":[],"inputs":[]})",
        R"({"inputs":[{}]})",
        R"({"id":1,"inputs":[]})",
        R"({"parameters":[],"inputs":[]})",
        R"({"parameters":{"a":[1]},"inputs":[]})",
        R"({"parameters":{"a":{}},"inputs":[]})",
        R"({"parameters":{"a":null},"inputs":[]})",
        R"({"inputs":[{"name":"x","shape":[1],"datatype":"FP32"}]})",
        R"({"inputs":[{"name":"x","shape":[1],"datatype":"WRONG","data":[1]}]})",
        R"({"inputs":[{"name":"x","shape":[-1],"datatype":"FP32","data":[1]}]})",
        R"({"inputs":[{"name":"x","shape":[1.5],"datatype":"FP32","data":[1]}]})",
        R"({"inputs":[{"name":"x","shape":[[1]],"datatype":"FP32","data":[1]}]})",
        R"({"inputs":[{"name":"x","shape":1,"datatype":"FP32","data":[1]}]})",
        R"({"inputs":[{"name":"x","datatype":"FP32","data":[1]}]})",
        R"({"inputs":[{"name":"x","shape":[1],"data":[1]}]})",
        R"({"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":{"a":1}}]})",
        R"({"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[{}]}]})",
        R"({"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1],"parameters":{"binary_data_size":4}}]})",
        R"({"inputs":[{"name":"x","shape":[1],"datatype":"FP32","parameters":{"binary_data_size":-4}}]})",
        R"({"inputs":[],"outputs":[{"name":"o","parameters":{"shared_memory_region":"r","classification":1}}]})",
        R"({"inputs":[],"outputs":[{"name":"o","parameters":{"shared_memory_region":"r","binary_data":true}}]})",
        R"({"inputs":[],"outputs":[{"name":1}]})",
        R"({"inputs":[]}x)",
        "{\"inputs\":[],\"id\":\"\xff\"}"})
    EXPECT_NE(refusal(json), "") << json;
}

TEST(InferDocument, DeepNestingIsRefused) {
  const auto nested = [](size_t depth) {
    return R"({"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":)" + std::string(depth, '[') + "1" +
           std::string(depth, ']') + "}]}";
  };
  EXPECT_EQ(refusal(nested(90)), "");
  EXPECT_NE(refusal(nested(98)).find("nesting depth"), std::string::npos);
  EXPECT_NE(refusal(nested(1'000'000)).find("nesting depth"), std::string::npos);
  EXPECT_NE(refusal("{\"other\":" + std::string(100'000, '[')).find("nesting depth"), std::string::npos);
}

TEST(InferDocument, DataBeyondTheLimit) {
  std::string data = "0";
  for (int i = 0; i < 200'000; ++i) data += ",0";
  EXPECT_NE(input_refusal(R"("shape":[200001],"datatype":"FP64","data":[)" + data + "]").find("--http-max-input-size"),
            std::string::npos);
  // A shape is no reason to take memory.
  EXPECT_EQ(input_of(R"("shape":[9223372036854775807,9223372036854775807],"datatype":"FP64","data":[1])").data->size(),
            8u);
}

// Every number that is written reads as the same.
TEST(InferDocument, NumbersGoOutAndComeBack) {
  std::mt19937_64 random = seeded_random();
  std::vector<float> floats = {
      0.0f, -0.0f, 1.0f, 16777216.0f, 1e-45f, std::numeric_limits<float>::max(), std::numeric_limits<float>::min()};
  std::vector<double> doubles = {0.0, 5e-324, std::numeric_limits<double>::max(), 0.1, 1e22};
  while (floats.size() < 20000) {
    const auto bits = static_cast<uint32_t>(random());
    float value = 0;
    std::memcpy(&value, &bits, sizeof value);
    if (std::isfinite(value)) floats.push_back(value);
  }
  while (doubles.size() < 20000) {
    const uint64_t bits = random();
    double value = 0;
    std::memcpy(&value, &bits, sizeof value);
    if (std::isfinite(value)) doubles.push_back(value);
  }
  const auto back = [](const auto& values, DType dtype, const char* name) {
    using T = typename std::decay_t<decltype(values)>::value_type;
    NamedTensor tensor;
    tensor.dtype = dtype;
    tensor.shape = {static_cast<int64_t>(values.size())};
    tensor.data.span = std::as_bytes(std::span(values));
    std::string text;
    append_elements(text, tensor);
    const auto read = values_of<T>(input_of("\"shape\":[" + std::to_string(values.size()) + "],\"datatype\":\"" + name +
                                            "\",\"data\":[" + text + "]"));
    ASSERT_EQ(read.size(), values.size());
    EXPECT_EQ(std::memcmp(read.data(), values.data(), values.size() * sizeof(T)), 0);
  };
  back(floats, DType::f32, "FP32");
  back(doubles, DType::f64, "FP64");
}

TEST(ElementWriter, WhatIsNoNumber) {
  const std::vector<float> values = {NAN, INFINITY, -INFINITY, 1, 0.1f};
  NamedTensor tensor{"o", DType::f32, {5}, {std::as_bytes(std::span(values)), nullptr}};
  std::string text;
  append_elements(text, tensor);
  EXPECT_EQ(text, "NaN,Infinity,-Infinity,1.0,0.1");
  tensor.shape = {6};
  EXPECT_THROW(append_elements(text, tensor), ServerError);
  tensor.dtype = DType::f16;
  tensor.shape = {10};
  EXPECT_THROW(append_elements(text, tensor), ServerError);
}

TEST(ElementWriter, Texts) {
  const std::string bytes("\x02\0\0\0a\"\0\0\0\0\x01\0\0\0\n", 15);
  NamedTensor tensor{"o", DType::string, {3}, {std::as_bytes(std::span(bytes)), nullptr}};
  std::string text;
  append_elements(text, tensor);
  EXPECT_EQ(text, R"("a\"","","\n")");
  const std::string wrong("\x01\0\0\0\xff", 5), cut("\x05\0\0\0a", 5);
  tensor.data.span = std::as_bytes(std::span(wrong));
  EXPECT_THROW(append_elements(text, tensor), ServerError);
  tensor.data.span = std::as_bytes(std::span(cut));
  EXPECT_THROW(append_elements(text, tensor), ServerError);
}

}  // namespace
}  // namespace camshaft::server::infer_document_test
