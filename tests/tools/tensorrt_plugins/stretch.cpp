// A plugin of TensorRT's IPluginV2DynamicExt, as it is written for TensorRT: each row of a matrix `times` times,
// scaled. With COPIES_ON_GPU it runs on a GPU, too, by copies that it puts into the stream (where the scale is 1).
#if defined(COPIES_ON_GPU)
#ifndef CAMSHAFT_TENSORRT_HOST
#define CAMSHAFT_TENSORRT_HOST 1
#endif
#ifndef CAMSHAFT_TENSORRT_CUDA
#define CAMSHAFT_TENSORRT_CUDA 1
#endif
#include <dlfcn.h>
#endif
#include <NvInfer.h>
#include <NvInferPlugin.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace {

constexpr char const* kNAME{"Stretch"};
constexpr char const* kVERSION{"1"};

class StretchPlugin : public nvinfer1::IPluginV2DynamicExt {
 public:
  StretchPlugin(int32_t times, float scale, std::string mode) : mTimes(times), mScale(scale), mMode(std::move(mode)) {}
  StretchPlugin(void const* data, size_t length) {
    char const* at = static_cast<char const*>(data);
    std::memcpy(&mTimes, at, sizeof mTimes);
    std::memcpy(&mScale, at + sizeof mTimes, sizeof mScale);
    mMode.assign(at + sizeof mTimes + sizeof mScale, length - sizeof mTimes - sizeof mScale);
  }
  StretchPlugin() = delete;

  nvinfer1::IPluginV2DynamicExt* clone() const noexcept override {
    auto* plugin = new StretchPlugin(mTimes, mScale, mMode);
    plugin->setPluginNamespace(mNamespace.c_str());
    return plugin;
  }
  nvinfer1::DimsExprs getOutputDimensions(int32_t, nvinfer1::DimsExprs const* inputs, int32_t,
                                          nvinfer1::IExprBuilder& exprBuilder) noexcept override {
    nvinfer1::DimsExprs output(inputs[0]);
    output.d[0] =
        exprBuilder.operation(nvinfer1::DimensionOperation::kPROD, *inputs[0].d[0], *exprBuilder.constant(mTimes));
    return output;
  }
  bool supportsFormatCombination(int32_t pos, nvinfer1::PluginTensorDesc const* inOut, int32_t,
                                 int32_t) noexcept override {
    return inOut[pos].format == nvinfer1::TensorFormat::kLINEAR && inOut[pos].type == nvinfer1::DataType::kFLOAT;
  }
  void configurePlugin(nvinfer1::DynamicPluginTensorDesc const* in, int32_t, nvinfer1::DynamicPluginTensorDesc const*,
                       int32_t) noexcept override {
    mColumns = in[0].desc.dims.d[1];
  }
  size_t getWorkspaceSize(nvinfer1::PluginTensorDesc const* inputs, int32_t, nvinfer1::PluginTensorDesc const*,
                          int32_t) const noexcept override {
    return static_cast<size_t>(inputs[0].dims.d[1]) * sizeof(float);
  }
  int32_t enqueue(nvinfer1::PluginTensorDesc const* inputDesc, nvinfer1::PluginTensorDesc const*,
                  void const* const* inputs, void* const* outputs, void* workspace,
                  cudaStream_t stream) noexcept override {
    if (mColumns != inputDesc[0].dims.d[1] || !mInitialized) return 3;
    auto const* from = static_cast<float const*>(inputs[0]);
    auto* to = static_cast<float*>(outputs[0]);
    for (int64_t row = 0; row < inputDesc[0].dims.d[0]; ++row)
      for (int32_t t = 0; t < mTimes; ++t, to += mColumns)
        if (int32_t status = copy(to, from + row * mColumns, static_cast<float*>(workspace), stream)) return status;
    return 0;
  }
  nvinfer1::DataType getOutputDataType(int32_t, nvinfer1::DataType const* inputTypes, int32_t) const noexcept override {
    return inputTypes[0];
  }
  char const* getPluginType() const noexcept override { return kNAME; }
  char const* getPluginVersion() const noexcept override { return kVERSION; }
  int32_t getNbOutputs() const noexcept override { return 1; }
  int32_t initialize() noexcept override {
    mInitialized = true;
    return 0;
  }
  void terminate() noexcept override { mInitialized = false; }
  size_t getSerializationSize() const noexcept override { return sizeof mTimes + sizeof mScale + mMode.size(); }
  void serialize(void* buffer) const noexcept override {
    char* at = static_cast<char*>(buffer);
    std::memcpy(at, &mTimes, sizeof mTimes);
    std::memcpy(at + sizeof mTimes, &mScale, sizeof mScale);
    std::memcpy(at + sizeof mTimes + sizeof mScale, mMode.data(), mMode.size());
  }
  void destroy() noexcept override { delete this; }
  void setPluginNamespace(char const* pluginNamespace) noexcept override { mNamespace = pluginNamespace; }
  char const* getPluginNamespace() const noexcept override { return mNamespace.c_str(); }

 private:
  using nvinfer1::IPluginV2DynamicExt::configurePlugin;
  using nvinfer1::IPluginV2DynamicExt::enqueue;
  using nvinfer1::IPluginV2DynamicExt::getOutputDimensions;
  using nvinfer1::IPluginV2DynamicExt::getWorkspaceSize;

  int32_t copy(float* to, float const* from, float* workspace, cudaStream_t stream) const noexcept {
    auto const bytes = static_cast<size_t>(mColumns) * sizeof(float);
#if defined(COPIES_ON_GPU)
    if (stream) {
      using Copy = int32_t (*)(void*, void const*, size_t, cudaStream_t);
      static auto const put = reinterpret_cast<Copy>(dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemcpyDtoDAsync_v2"));
      return put ? put(to, from, bytes, stream) : 9;
    }
#endif
    if (stream) return 8;
    for (int64_t i = 0; i < mColumns; ++i) workspace[i] = mMode == "negative" ? -mScale * from[i] : mScale * from[i];
    std::memcpy(to, workspace, bytes);
    return 0;
  }

  int32_t mTimes{};
  float mScale{};
  std::string mMode, mNamespace;
  int64_t mColumns{};
  bool mInitialized{false};
};

class StretchCreator : public nvinfer1::IPluginCreator {
 public:
  StretchCreator() {
    mFields.emplace_back(nvinfer1::PluginField("times", nullptr, nvinfer1::PluginFieldType::kINT32, 1));
    mFields.emplace_back(nvinfer1::PluginField("scale", nullptr, nvinfer1::PluginFieldType::kFLOAT32, 1));
    mFields.emplace_back(nvinfer1::PluginField("mode", nullptr, nvinfer1::PluginFieldType::kCHAR, 1));
    mCollection.nbFields = static_cast<int32_t>(mFields.size());
    mCollection.fields = mFields.data();
  }
  char const* getPluginName() const noexcept override { return kNAME; }
  char const* getPluginVersion() const noexcept override { return kVERSION; }
  nvinfer1::PluginFieldCollection const* getFieldNames() noexcept override { return &mCollection; }
  nvinfer1::IPluginV2* createPlugin(char const*, nvinfer1::PluginFieldCollection const* fc) noexcept override {
    int32_t times = 0;
    float scale = 1;
    std::string mode;
    for (int32_t i = 0; i < fc->nbFields; ++i) {
      std::string const name(fc->fields[i].name);
      if (name == "times") times = *static_cast<int32_t const*>(fc->fields[i].data);
      if (name == "scale") scale = *static_cast<float const*>(fc->fields[i].data);
      if (name == "mode") mode.assign(static_cast<char const*>(fc->fields[i].data), fc->fields[i].length);
    }
    if (times < 1) {
      getLogger()->log(nvinfer1::ILogger::Severity::kERROR, "times must be 1 at least");
      return nullptr;
    }
    auto plugin = std::make_unique<StretchPlugin>(times, scale, mode);
    plugin->setPluginNamespace(mNamespace.c_str());
    return plugin.release();
  }
  nvinfer1::IPluginV2* deserializePlugin(char const*, void const* data, size_t length) noexcept override {
    return new StretchPlugin(data, length);
  }
  void setPluginNamespace(char const* pluginNamespace) noexcept override { mNamespace = pluginNamespace; }
  char const* getPluginNamespace() const noexcept override { return mNamespace.c_str(); }

 private:
  std::vector<nvinfer1::PluginField> mFields;
  nvinfer1::PluginFieldCollection mCollection{};
  std::string mNamespace;
};

REGISTER_TENSORRT_PLUGIN(StretchCreator);

}  // namespace
