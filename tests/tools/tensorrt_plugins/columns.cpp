// A plugin of TensorRT's interfaces for fixed sizes, as it is written for TensorRT: each number times the number of its
// column, and its sign as an integer. Of IPluginV2IOExt, or with OF_EXT of IPluginV2Ext, with PLAIN of IPluginV2.
#include <NvInfer.h>
#include <NvInferPlugin.h>

#include <cstring>
#include <string>
#include <vector>

namespace {

using nvinfer1::DataType;
using nvinfer1::Dims;

#if defined(PLAIN)
using Base = nvinfer1::IPluginV2;
constexpr int32_t kOUTPUTS{1};
#elif defined(OF_EXT)
using Base = nvinfer1::IPluginV2Ext;
constexpr int32_t kOUTPUTS{2};
#else
using Base = nvinfer1::IPluginV2IOExt;
constexpr int32_t kOUTPUTS{2};
#endif

class ColumnsPlugin : public Base {
 public:
  explicit ColumnsPlugin(float factor) : mFactor(factor) {}
  ColumnsPlugin(void const* data, size_t) { std::memcpy(&mFactor, data, sizeof mFactor); }

  int32_t getNbOutputs() const noexcept override { return kOUTPUTS; }
  Dims getOutputDimensions(int32_t, Dims const* inputs, int32_t) noexcept override { return inputs[0]; }
  int32_t initialize() noexcept override {
    mInitialized = true;
    return 0;
  }
  void terminate() noexcept override { mInitialized = false; }
  size_t getWorkspaceSize(int32_t maxBatchSize) const noexcept override {
    return static_cast<size_t>(maxBatchSize * mColumns) * sizeof(float);
  }
  int32_t enqueue(int32_t batchSize, void const* const* inputs, void* const* outputs, void* workspace,
                  cudaStream_t) noexcept override {
    if (!mInitialized || batchSize != 1) return 3;
    auto const* from = static_cast<float const*>(inputs[0]);
    auto* to = static_cast<float*>(outputs[0]);
    auto* factors = static_cast<float*>(workspace);
    for (int64_t column = 0; column < mColumns; ++column) factors[column] = mFactor * static_cast<float>(column);
    for (int64_t i = 0; i < mCount; ++i) {
      to[i] = from[i] * factors[i % mColumns];
      if (kOUTPUTS > 1) static_cast<int32_t*>(outputs[1])[i] = from[i] < 0 ? -1 : from[i] > 0;
    }
    return 0;
  }
  size_t getSerializationSize() const noexcept override { return sizeof mFactor; }
  void serialize(void* buffer) const noexcept override { std::memcpy(buffer, &mFactor, sizeof mFactor); }
  void destroy() noexcept override { delete this; }
  char const* getPluginType() const noexcept override { return "Columns"; }
  char const* getPluginVersion() const noexcept override { return "1"; }
  void setPluginNamespace(char const* pluginNamespace) noexcept override { mNamespace = pluginNamespace; }
  char const* getPluginNamespace() const noexcept override { return mNamespace.c_str(); }
  Base* clone() const noexcept override { return new ColumnsPlugin(*this); }

#if defined(PLAIN)
  bool supportsFormat(DataType type, nvinfer1::PluginFormat format) const noexcept override {
    return type == DataType::kFLOAT && format == nvinfer1::PluginFormat::kLINEAR;
  }
  void configureWithFormat(Dims const* inputDims, int32_t, Dims const*, int32_t, DataType, nvinfer1::PluginFormat,
                           int32_t) noexcept override {
    setSizes(inputDims[0]);
  }
#else
  DataType getOutputDataType(int32_t index, DataType const* inputTypes, int32_t) const noexcept override {
    return index == 0 ? inputTypes[0] : DataType::kINT32;
  }
  bool isOutputBroadcastAcrossBatch(int32_t, bool const*, int32_t) const noexcept override {
    return false;
  }
  bool canBroadcastInputAcrossBatch(int32_t) const noexcept override {
    return false;
  }
#endif
#if defined(OF_EXT)
  bool supportsFormat(DataType type, nvinfer1::PluginFormat format) const noexcept override {
    return type == DataType::kFLOAT && format == nvinfer1::PluginFormat::kLINEAR;
  }
  void configurePlugin(Dims const* inputDims, int32_t, Dims const*, int32_t, DataType const* inputTypes,
                       DataType const*, bool const* inputIsBroadcast, bool const*, nvinfer1::PluginFormat,
                       int32_t) noexcept override {
    if (inputTypes[0] == DataType::kFLOAT && !inputIsBroadcast[0]) setSizes(inputDims[0]);
  }
#elif !defined(PLAIN)
  bool supportsFormatCombination(int32_t pos, nvinfer1::PluginTensorDesc const* inOut, int32_t,
                                 int32_t) const noexcept override {
    DataType const wanted = pos == 2 ? DataType::kINT32 : DataType::kFLOAT;
    return inOut[pos].format == nvinfer1::TensorFormat::kLINEAR && inOut[pos].type == wanted;
  }
  void configurePlugin(nvinfer1::PluginTensorDesc const* in, int32_t, nvinfer1::PluginTensorDesc const*,
                       int32_t) noexcept override {
    setSizes(in[0].dims);
  }
#endif

 private:
  void setSizes(Dims const& dims) {
    mColumns = dims.d[dims.nbDims - 1];
    mCount = 1;
    for (int32_t axis = 0; axis < dims.nbDims; ++axis) mCount *= dims.d[axis];
  }

  float mFactor{};
  std::string mNamespace;
  int64_t mColumns{}, mCount{};
  bool mInitialized{false};
};

class ColumnsCreator : public nvinfer1::IPluginCreator {
 public:
  ColumnsCreator() {
    mFields.emplace_back(nvinfer1::PluginField("factor", nullptr, nvinfer1::PluginFieldType::kFLOAT32, 1));
    mCollection.nbFields = static_cast<int32_t>(mFields.size());
    mCollection.fields = mFields.data();
  }
  char const* getPluginName() const noexcept override { return "Columns"; }
  char const* getPluginVersion() const noexcept override { return "1"; }
  nvinfer1::PluginFieldCollection const* getFieldNames() noexcept override { return &mCollection; }
  nvinfer1::IPluginV2* createPlugin(char const*, nvinfer1::PluginFieldCollection const* fc) noexcept override {
    return new ColumnsPlugin(fc->nbFields > 0 ? *static_cast<float const*>(fc->fields[0].data) : 1.0F);
  }
  nvinfer1::IPluginV2* deserializePlugin(char const*, void const* data, size_t length) noexcept override {
    return new ColumnsPlugin(data, length);
  }
  void setPluginNamespace(char const* pluginNamespace) noexcept override { mNamespace = pluginNamespace; }
  char const* getPluginNamespace() const noexcept override { return mNamespace.c_str(); }

 private:
  std::vector<nvinfer1::PluginField> mFields;
  nvinfer1::PluginFieldCollection mCollection{};
  std::string mNamespace;
};

REGISTER_TENSORRT_PLUGIN(ColumnsCreator);

}  // namespace
