// A plugin of TensorRT's interfaces that takes one format alone for its input and one for its output: x · (c + 1) of
// channel c. The attributes say which formats, as numbers of nvinfer1::TensorFormat. With a stream the operands are
// copied to the host, and the result back.
#include <NvInfer.h>
#include <NvInferPlugin.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace {

using nvinfer1::DataType;
using nvinfer1::Dims;
using nvinfer1::PluginTensorDesc;
using nvinfer1::TensorFormat;

/// Elements of a tensor in the format, those that fill up channels among them.
int64_t elements(TensorFormat format, Dims const& dims) {
  int64_t multiple = 1;
  if (format == TensorFormat::kCHW2) multiple = 2;
  if (format == TensorFormat::kCHW4) multiple = 4;
  if (format == TensorFormat::kHWC8 || format == TensorFormat::kDHWC8) multiple = 8;
  if (format == TensorFormat::kHWC16 || format == TensorFormat::kCHW16) multiple = 16;
  if (format == TensorFormat::kCHW32 || format == TensorFormat::kCDHW32) multiple = 32;
  int64_t count = 1;
  for (int32_t a = 0; a < dims.nbDims; ++a)
    count *= a == 1 ? (dims.d[a] + multiple - 1) / multiple * multiple : dims.d[a];
  return count;
}

template <class Function>
Function driver(char const* name) {
  return reinterpret_cast<Function>(dlsym(dlopen("libcuda.so.1", RTLD_NOW), name));
}

/// Where an element lies, in the words of TensorRT's documentation of the format.
int64_t place(TensorFormat format, Dims const& dims, int64_t n, int64_t c, int64_t s) {
  bool const deep = format == TensorFormat::kCDHW32 || format == TensorFormat::kDHWC8 || format == TensorFormat::kDHWC;
  int32_t const axis = dims.nbDims - (deep ? 4 : 3);
  int64_t const channels = dims.d[axis];
  int64_t spatial = 1;
  for (int32_t a = axis + 1; a < dims.nbDims; ++a) spatial *= dims.d[a];
  auto const last = [&](int64_t pad) { return (n * spatial + s) * ((channels + pad - 1) / pad * pad) + c; };
  auto const blocks = [&](int64_t x) { return ((n * ((channels + x - 1) / x) + c / x) * spatial + s) * x + c % x; };
  switch (format) {
    case TensorFormat::kHWC:
    case TensorFormat::kDHWC:
      return last(1);
    case TensorFormat::kHWC8:
    case TensorFormat::kDHWC8:
      return last(8);
    case TensorFormat::kHWC16:
      return last(16);
    case TensorFormat::kCHW2:
      return blocks(2);
    case TensorFormat::kCHW4:
      return blocks(4);
    case TensorFormat::kCHW16:
      return blocks(16);
    case TensorFormat::kCHW32:
    case TensorFormat::kCDHW32:
      return blocks(32);
    default:
      return (n * channels + c) * spatial + s;
  }
}

class Plugin : public nvinfer1::IPluginV2DynamicExt {
 public:
  explicit Plugin(int32_t const* formats) { std::memcpy(mFormats, formats, sizeof mFormats); }

  IPluginV2DynamicExt* clone() const noexcept override { return new Plugin(mFormats); }
  nvinfer1::DimsExprs getOutputDimensions(int32_t, nvinfer1::DimsExprs const* inputs, int32_t,
                                          nvinfer1::IExprBuilder&) noexcept override {
    return inputs[0];
  }
  bool supportsFormatCombination(int32_t pos, PluginTensorDesc const* inOut, int32_t, int32_t) noexcept override {
    return static_cast<int32_t>(inOut[pos].format) == mFormats[pos] && inOut[pos].type == inOut[0].type;
  }
  void configurePlugin(nvinfer1::DynamicPluginTensorDesc const*, int32_t, nvinfer1::DynamicPluginTensorDesc const*,
                       int32_t) noexcept override {}
  size_t getWorkspaceSize(PluginTensorDesc const*, int32_t, PluginTensorDesc const*, int32_t) const noexcept override {
    return 40;
  }
  int32_t enqueue(PluginTensorDesc const* in, PluginTensorDesc const* out, void const* const* inputs,
                  void* const* outputs, void* workspace, cudaStream_t stream) noexcept override {
    if (static_cast<int32_t>(in[0].format) != mFormats[0] || static_cast<int32_t>(out[0].format) != mFormats[1])
      return 1;
    if (stream) return on_host(in[0], out[0], inputs[0], outputs[0], stream);
    std::memset(workspace, 0x55, 40);
    return in[0].type == DataType::kINT8 ? compute<int8_t>(in[0], out[0], inputs[0], outputs[0])
                                         : compute<float>(in[0], out[0], inputs[0], outputs[0]);
  }
  DataType getOutputDataType(int32_t, DataType const* types, int32_t) const noexcept override { return types[0]; }
  char const* getPluginType() const noexcept override { return "InFormats"; }
  char const* getPluginVersion() const noexcept override { return "1"; }
  int32_t getNbOutputs() const noexcept override { return 1; }
  int32_t initialize() noexcept override { return 0; }
  void terminate() noexcept override {}
  size_t getSerializationSize() const noexcept override { return sizeof mFormats; }
  void serialize(void* buffer) const noexcept override { std::memcpy(buffer, mFormats, sizeof mFormats); }
  void destroy() noexcept override { delete this; }
  void setPluginNamespace(char const*) noexcept override {}
  char const* getPluginNamespace() const noexcept override { return ""; }

 private:
  int32_t on_host(PluginTensorDesc const& in, PluginTensorDesc const& out, void const* from, void* to,
                  cudaStream_t stream) {
    size_t const width = in.type == DataType::kINT8 ? 1 : 4;
    std::vector<char> given(static_cast<size_t>(elements(in.format, in.dims)) * width);
    std::vector<char> made(static_cast<size_t>(elements(out.format, out.dims)) * width);
    using Copy = int32_t (*)(void*, void const*, size_t, cudaStream_t);
    auto const wait = driver<int32_t (*)(cudaStream_t)>("cuStreamSynchronize");
    if (driver<Copy>("cuMemcpyDtoHAsync_v2")(given.data(), from, given.size(), stream) != 0 || wait(stream) != 0)
      return 4;
    in.type == DataType::kINT8 ? compute<int8_t>(in, out, given.data(), made.data())
                               : compute<float>(in, out, given.data(), made.data());
    return driver<Copy>("cuMemcpyHtoDAsync_v2")(to, made.data(), made.size(), stream) + wait(stream);
  }
  template <class T>
  int32_t compute(PluginTensorDesc const& in, PluginTensorDesc const& out, void const* from, void* to) {
    Dims const& dims = in.dims;
    int64_t spatial = 1;
    for (int32_t axis = 2; axis < dims.nbDims; ++axis) spatial *= dims.d[axis];
    for (int64_t n = 0; n < dims.d[0]; ++n)
      for (int64_t c = 0; c < dims.d[1]; ++c)
        for (int64_t s = 0; s < spatial; ++s)
          static_cast<T*>(to)[place(out.format, dims, n, c, s)] =
              static_cast<T>(static_cast<T const*>(from)[place(in.format, dims, n, c, s)] * static_cast<T>(c + 1));
    return 0;
  }

  int32_t mFormats[2];
};

class Creator : public nvinfer1::IPluginCreator {
 public:
  Creator() {
    mFields.emplace_back("formats", nullptr, nvinfer1::PluginFieldType::kINT32, 2);
    mCollection.nbFields = 1;
    mCollection.fields = mFields.data();
  }
  char const* getPluginName() const noexcept override { return "InFormats"; }
  char const* getPluginVersion() const noexcept override { return "1"; }
  nvinfer1::PluginFieldCollection const* getFieldNames() noexcept override { return &mCollection; }
  nvinfer1::IPluginV2* createPlugin(char const*, nvinfer1::PluginFieldCollection const* fc) noexcept override {
    return new Plugin(static_cast<int32_t const*>(fc->fields[0].data));
  }
  nvinfer1::IPluginV2* deserializePlugin(char const*, void const* data, size_t) noexcept override {
    return new Plugin(static_cast<int32_t const*>(data));
  }
  void setPluginNamespace(char const*) noexcept override {}
  char const* getPluginNamespace() const noexcept override { return ""; }

 private:
  std::vector<nvinfer1::PluginField> mFields;
  nvinfer1::PluginFieldCollection mCollection{};
};

REGISTER_TENSORRT_PLUGIN(Creator);

}  // namespace
