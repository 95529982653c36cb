#include "onnx/tensor_data.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <limits>

#include "base/error.h"
#include "onnx/model_writer.h"
#include "onnx/proto_reader.h"

namespace camshaft::onnx::tensor_data_test {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the writers are this file's language
namespace fs = std::filesystem;

std::string model_with(const TensorWriter& tensor) {
  return ModelWriter().opset(21).graph(GraphWriter().initializer(tensor)).bytes();
}

/// A tensor of a model that lies in `folder`, if given; `bytes` must outlive the result.
TensorData read(const std::string& bytes, const fs::path& folder = {}) {
  const ModelProto model = read_model(std::as_bytes(std::span(bytes)), "model.onnx", nullptr, folder);
  return TensorReader(model).read(model.graph.initializers.at(0), "initializer");
}

template <class T>
std::vector<T> values(const TensorData& data) {
  std::vector<T> out(data.bytes.size() / sizeof(T));
  std::memcpy(out.data(), data.bytes.data(), data.bytes.size());
  return out;
}

void expect_error(ErrorCode code, const std::string& part, const TensorWriter& tensor, const fs::path& folder = {}) {
  try {
    read(model_with(tensor), folder);
    FAIL() << "accepted; expected: " << part;
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(error.code(), code) << message;
    EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_EQ(
        message.rfind("model.onnx: initializer 'w' ", 0) == 0 || message.rfind("model.onnx: initializer 'w':", 0) == 0,
        true)
        << message;
  }
}

void expect_invalid(const std::string& part, const TensorWriter& tensor) {
  expect_error(ErrorCode::invalid_model, part, tensor);
}

TEST(TensorData, RawDataIsAView) {
  const std::string bytes = model_with(TensorWriter("w", {2, 3}, std::vector<float>{1, 2, 3, 4, 5, 6}));
  const TensorData data = read(bytes);
  EXPECT_EQ(data.dtype, DType::f32);
  EXPECT_EQ(data.dims, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(data.count, 6);
  EXPECT_EQ(values<float>(data), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  const char* begin = reinterpret_cast<const char*>(data.bytes.data());
  EXPECT_TRUE(begin >= bytes.data() && begin < bytes.data() + bytes.size());
}

TEST(TensorData, OwnerKeepsTheFileMapped) {
  auto storage = std::make_shared<std::string>(model_with(TensorWriter("w", {1}, std::vector<int64_t>{42})));
  TensorData data;
  {
    const ModelProto model = read_model(std::as_bytes(std::span(*storage)), "model.onnx", storage);
    data = TensorReader(model).read(model.graph.initializers.at(0));
  }
  EXPECT_EQ(storage.use_count(), 2);
  storage.reset();
  EXPECT_EQ(values<int64_t>(data), (std::vector<int64_t>{42}));
}

TEST(TensorData, TypedFields) {
  const std::vector<int64_t> dims{3};
  const auto typed = [&](DType dtype) { return TensorWriter("w", dims, dtype); };
  EXPECT_EQ(values<float>(read(model_with(typed(DType::f32).float_data({1, -2, 3})))), (std::vector<float>{1, -2, 3}));
  EXPECT_EQ(values<double>(read(model_with(typed(DType::f64).double_data({1, -2, 3})))),
            (std::vector<double>{1, -2, 3}));
  EXPECT_EQ(values<int64_t>(read(model_with(typed(DType::i64).int64_data({1, -2, 3})))),
            (std::vector<int64_t>{1, -2, 3}));
  EXPECT_EQ(values<uint64_t>(read(model_with(typed(DType::u64).uint64_data({1, ~0ULL, 3})))),
            (std::vector<uint64_t>{1, ~0ULL, 3}));
  EXPECT_EQ(values<uint32_t>(read(model_with(typed(DType::u32).uint64_data({1, 0xffffffff, 3})))),
            (std::vector<uint32_t>{1, 0xffffffff, 3}));
  EXPECT_EQ(values<int32_t>(read(model_with(typed(DType::i32).int32_data({1, INT32_MIN, 3})))),
            (std::vector<int32_t>{1, INT32_MIN, 3}));
  for (const DType dtype : {DType::i16, DType::u16, DType::f16, DType::bf16})
    EXPECT_EQ(values<uint16_t>(read(model_with(typed(dtype).int32_data({1, 0xffff, -0x8000})))),
              (std::vector<uint16_t>{1, 0xffff, 0x8000}))
        << to_string(dtype);
  for (const DType dtype :
       {DType::i8, DType::u8, DType::f8e4m3, DType::f8e5m2, DType::f8e4m3fnuz, DType::f8e5m2fnuz, DType::f8e8m0})
    EXPECT_EQ(values<uint8_t>(read(model_with(typed(dtype).int32_data({1, 0xff, -0x80})))),
              (std::vector<uint8_t>{1, 0xff, 0x80}))
        << to_string(dtype);
  EXPECT_EQ(values<uint8_t>(read(model_with(typed(DType::boolean).int32_data({0, 1, 2})))),
            (std::vector<uint8_t>{0, 1, 1}));
  for (const DType dtype : {DType::i4, DType::u4, DType::f4e2m1})
    EXPECT_EQ(values<uint8_t>(read(model_with(typed(dtype).int32_data({0x21, 0xf3})))),
              (std::vector<uint8_t>{0x21, 0xf3}))
        << "three elements, two to a value";
  for (const DType dtype : {DType::i2, DType::u2})
    EXPECT_EQ(values<uint8_t>(read(model_with(typed(dtype).int32_data({0x1b})))), (std::vector<uint8_t>{0x1b}));
  EXPECT_EQ(read(model_with(typed(DType::string).string_data({"a", "", "ccc"}))).strings,
            (std::vector<std::string>{"a", "", "ccc"}));
}

TEST(TensorData, EveryDTypeFromRawData) {
  for (const DType dtype :
       {DType::f64,        DType::f32,        DType::f16,    DType::bf16, DType::f8e4m3, DType::f8e5m2,
        DType::f4e2m1,     DType::i64,        DType::i32,    DType::i16,  DType::i8,     DType::i4,
        DType::u64,        DType::u32,        DType::u16,    DType::u8,   DType::u4,     DType::boolean,
        DType::f8e4m3fnuz, DType::f8e5m2fnuz, DType::f8e8m0, DType::i2,   DType::u2}) {
    std::string raw(byte_size(dtype, 5), '\0');
    for (size_t i = 0; i < raw.size(); ++i) raw[i] = static_cast<char>(i % 2);
    const std::string bytes = model_with(TensorWriter("w", {5}, dtype, raw));
    const TensorData data = read(bytes);
    EXPECT_EQ(data.dtype, dtype);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(data.bytes.data()), data.bytes.size()), raw);
    expect_invalid("holds", TensorWriter("w", {5}, dtype, raw + "x"));
    if (raw.size() > 1) expect_invalid("holds", TensorWriter("w", {5}, dtype, raw.substr(1)));
  }
}

TEST(TensorData, BooleansAreZeroOrOne) {
  const std::string bytes = model_with(TensorWriter("w", {4}, DType::boolean, std::string("\x00\x01\x02\xff", 4)));
  EXPECT_EQ(values<uint8_t>(read(bytes)), (std::vector<uint8_t>{0, 1, 1, 1}));
}

TEST(TensorData, EmptyTensors) {
  EXPECT_EQ(read(model_with(TensorWriter("w", {0, 3}, DType::f32))).count, 0);
  EXPECT_EQ(read(model_with(TensorWriter("w", {0, 3}, DType::f32, ""))).bytes.size(), 0U);
  EXPECT_EQ(read(model_with(TensorWriter("w", {1}, DType::f32, "").float_data({2}))).count, 1) << "raw_data but empty";
  EXPECT_EQ(read(model_with(TensorWriter("w", {0}, DType::string))).strings.size(), 0U);
  EXPECT_EQ(read(model_with(TensorWriter("w", {}, std::vector<float>{1}))).count, 1);
}

TEST(TensorData, RefusesWrongData) {
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  expect_invalid("holds 0 elements, but 6 elements of f32 (dims [2, 3]) take 6", TensorWriter("w", {2, 3}, DType::f32));
  expect_invalid("holds 8 bytes, but 3 elements of f32 (dims [3]) take 12",
                 TensorWriter("w", {3}, DType::f32, "12345678"));
  expect_invalid("dims [-1]", TensorWriter("w", {-1}, DType::f32));
  expect_invalid("which no tensor can have", TensorWriter("w", {kHuge, 2}, DType::f32));
  expect_invalid("which no tensor can have", TensorWriter("w", {kHuge, kHuge, 0}, DType::f32));
  expect_invalid("has 9223372036854775807 elements", TensorWriter("w", {kHuge}, DType::f32, "1234"));
  expect_invalid("65 dims", TensorWriter("w", std::vector<int64_t>(65, 1), DType::f32));
  // 2^61 + 1 elements of 8 bytes take 8 bytes when the product wraps around.
  expect_invalid("elements", TensorWriter("w", {(int64_t{1} << 61) + 1}, DType::i64, "12345678"));
  expect_invalid("holds 0 elements", TensorWriter("w", {1}, DType::f32).int32_data({1}));
  expect_invalid("several fields: raw_data, float_data", TensorWriter("w", {1}, DType::f32, "1234").float_data({1}));
  expect_invalid("the value 256, which u8 cannot", TensorWriter("w", {1}, DType::u8).int32_data({256}));
  expect_invalid("the value 4294967296, which u32 cannot",
                 TensorWriter("w", {1}, DType::u32).uint64_data({1ULL << 32}));
  expect_invalid("strings as raw bytes", TensorWriter("w", {1}, DType::string, "text"));
  expect_invalid("no data type", TensorWriter("w", {1}, 0));
  expect_invalid("data type 77, which is no element type", TensorWriter("w", {1}, 77));
  for (const auto& [number, name] : {
           std::pair{14, "COMPLEX64"},
           {15, "COMPLEX128"},
       })
    expect_error(ErrorCode::unsupported, name, TensorWriter("w", {1}, number));
}

class ExternalData : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(::testing::TempDir()) / ("camshaft_external_" + std::to_string(getpid()));
    folder_ = root_ / "model";
    fs::create_directories(folder_ / "sub");
    write(folder_ / "w.bin", "0123456789abcdef");
    write(folder_ / "sub" / "v.bin", "ABCD");
    write(root_ / "secret.bin", "secret!!");
    fs::create_directories(root_ / "model2");
    write(root_ / "model2" / "w.bin", "12345678");
  }
  void TearDown() override { fs::remove_all(root_); }

  static void write(const fs::path& path, const std::string& content) {
    std::ofstream(path, std::ios::binary) << content;
  }
  static TensorWriter external(const std::string& location,
                               std::vector<std::pair<std::string, std::string>> more = {}) {
    more.emplace_back("location", location);
    return TensorWriter("w", {2}, DType::i16).external(more);
  }
  std::string content(const TensorWriter& tensor) const {
    const TensorData data = read(model_with(tensor), folder_);
    return {reinterpret_cast<const char*>(data.bytes.data()), data.bytes.size()};
  }

  fs::path root_;
  fs::path folder_;
};

TEST_F(ExternalData, OffsetAndLength) {
  EXPECT_EQ(content(external("w.bin")), "0123");
  EXPECT_EQ(content(external("w.bin", {{"offset", "4"}, {"length", "4"}})), "4567");
  EXPECT_EQ(content(external("./w.bin", {{"offset", "12"}, {"checksum", "ignored"}})), "cdef");
  EXPECT_EQ(content(external("sub/v.bin")), "ABCD");
}

TEST_F(ExternalData, IsFoundBesideTheModelFile) {
  write(folder_ / "m.onnx", model_with(external("w.bin")));
  const ModelProto model = read_model(folder_ / "m.onnx");
  const TensorData data = TensorReader(model).read(model.graph.initializers.at(0));
  EXPECT_EQ(data.bytes.size(), 4U);
}

TEST_F(ExternalData, FilesAreMappedOnce) {
  const std::string bytes = ModelWriter()
                                .opset(21)
                                .graph(GraphWriter().initializer(external("w.bin")).initializer(external("w.bin")))
                                .bytes();
  const ModelProto model = read_model(std::as_bytes(std::span(bytes)), "model.onnx", nullptr, folder_);
  TensorReader reader(model);
  EXPECT_EQ(reader.read(model.graph.initializers.at(0)).owner, reader.read(model.graph.initializers.at(1)).owner);
}

TEST_F(ExternalData, RefusesWrongRanges) {
  const auto expect = [&](const std::string& part, const TensorWriter& tensor) {
    expect_error(ErrorCode::invalid_model, part, tensor, folder_);
  };
  expect("needs bytes 13+4", external("w.bin", {{"offset", "13"}}));
  expect("needs bytes 18446744073709551615+4", external("w.bin", {{"offset", "18446744073709551615"}}));
  expect("holds 8 bytes", external("w.bin", {{"length", "8"}}));
  expect("several fields", external("w.bin").raw(9, std::string("1234")));
  expect("strings in an external file", TensorWriter("w", {1}, DType::string).external({{"location", "w.bin"}}));
}

TEST_F(ExternalData, RefusesToLeaveTheFolder) {
  fs::create_symlink(root_ / "secret.bin", folder_ / "link.bin");
  fs::create_directory_symlink(root_ / "model2", folder_ / "dir");
  fs::create_symlink(folder_ / "w.bin", folder_ / "inner.bin");
  for (const std::string& location : {std::string("../secret.bin"), std::string("sub/../../secret.bin"),
                                      (root_ / "secret.bin").string(), (folder_ / "w.bin").string(), std::string("..")})
    expect_error(ErrorCode::invalid_model, "not a path inside the model's folder", external(location), folder_);
  for (const char* location : {"link.bin", "dir/w.bin"})
    expect_error(ErrorCode::invalid_model, "symbolic link out of the model's folder", external(location), folder_);
  EXPECT_EQ(content(external("inner.bin")), "0123") << "a link that stays inside is followed";
  // A model given as bytes has no folder; the working directory must not stand in for it.
  expect_error(ErrorCode::invalid_model, "without a folder", external("w.bin"));
}

TEST_F(ExternalData, MissingFiles) {
  expect_error(ErrorCode::io, "cannot be opened", external("missing.bin"), folder_);
  expect_error(ErrorCode::io, "not a regular file", external("sub"), folder_);
  expect_error(ErrorCode::io, "not a regular file", external("."), folder_);
}

TensorData read_sparse(const std::vector<float>& v, const std::vector<int64_t>& index_dims,
                       const std::vector<int64_t>& indices, const std::vector<int64_t>& dims) {
  const std::string bytes =
      ModelWriter()
          .opset(13)
          .graph(GraphWriter().sparse_initializer(SparseTensorWriter(
              TensorWriter("w", {static_cast<int64_t>(v.size())}, v), TensorWriter("", index_dims, indices), dims)))
          .bytes();
  const ModelProto model = read_model(std::as_bytes(std::span(bytes)), "model.onnx");
  return TensorReader(model).read(model.graph.sparse_initializers.at(0));
}

TEST(SparseTensor, BecomesDense) {
  EXPECT_EQ(values<float>(read_sparse({5, 7}, {2}, {1, 5}, {2, 3})), (std::vector<float>{0, 5, 0, 0, 0, 7}));
  EXPECT_EQ(values<float>(read_sparse({5, 7}, {2, 2}, {0, 1, 1, 2}, {2, 3})), (std::vector<float>{0, 5, 0, 0, 0, 7}));
  EXPECT_EQ(values<float>(read_sparse({}, {0}, {}, {2})), (std::vector<float>{0, 0}));
}

TEST(SparseTensor, RefusesWrongCoordinates) {
  EXPECT_THROW(read_sparse({5}, {1}, {6}, {2, 3}), Error);
  EXPECT_THROW(read_sparse({5}, {1}, {-1}, {2, 3}), Error);
  EXPECT_THROW(read_sparse({5}, {1, 2}, {0, 3}, {2, 3}), Error);
  EXPECT_THROW(read_sparse({5}, {1, 3}, {0, 0, 0}, {2, 3}), Error);
  EXPECT_THROW(read_sparse({5, 6}, {1}, {0}, {2, 3}), Error);
  EXPECT_THROW(read_sparse({5}, {1}, {0}, {0, 3}), Error);
  EXPECT_THROW(read_sparse({5}, {1}, {0}, {int64_t{1} << 31, 3}), Error) << "more than 4 GiB";
}

}  // namespace
}  // namespace camshaft::onnx::tensor_data_test
