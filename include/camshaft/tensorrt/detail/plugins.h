// The interfaces that plugins and their creators implement.
#pragma once

#include "camshaft/tensorrt/detail/expressions.h"

namespace nvinfer1 {

struct PluginTensorDesc {
  Dims dims;
  DataType type;
  TensorFormat format;
  float scale;
};
struct DynamicPluginTensorDesc {
  PluginTensorDesc desc;
  Dims min;
  Dims max;
  Dims opt;
};

enum class PluginFieldType : int32_t {
  kFLOAT16 = 0,
  kFLOAT32 = 1,
  kFLOAT64 = 2,
  kINT8 = 3,
  kINT16 = 4,
  kINT32 = 5,
  kCHAR = 6,
  kDIMS = 7,
  kUNKNOWN = 8,
  kBF16 = 9,
  kINT64 = 10,
  kFP8 = 11,
  kINT4 = 12,
  kFP4 = 13,
};
template <>
constexpr int32_t EnumMax<PluginFieldType>() noexcept {
  return 14;
}
/// An attribute: `length` elements of that type.
class PluginField {
 public:
  AsciiChar const* name;
  void const* data;
  PluginFieldType type;
  int32_t length;
  PluginField(AsciiChar const* name_ = nullptr, void const* data_ = nullptr,
              PluginFieldType type_ = PluginFieldType::kUNKNOWN, int32_t length_ = 0) noexcept
      : name(name_), data(data_), type(type_), length(length_) {}
};
struct PluginFieldCollection {
#if __cplusplus >= 201402L
  int32_t nbFields{};
  PluginField const* fields{};
#else  // where {count, fields} is no initializer of such a struct
  int32_t nbFields;
  PluginField const* fields;
#endif
};

enum class TensorRTPhase : int32_t { kBUILD = 0, kRUNTIME = 1 };
template <>
constexpr int32_t EnumMax<TensorRTPhase>() noexcept {
  return 2;
}
enum class PluginCapabilityType : int32_t { kCORE = 0, kBUILD = 1, kRUNTIME = 2 };
enum class PluginVersion : uint8_t { kV2 = 0, kV2_EXT = 1, kV2_IOEXT = 2, kV2_DYNAMICEXT = 3 };
enum class PluginCreatorVersion : int32_t { kV1 = 0 };

// ---- IPluginV2 ----

class IPluginV2Ext;
class IPluginV2IOExt;
class IPluginV2DynamicExt;

/// Of one element type and of sizes that are numbers. There are no implicit batches: sizes are whole, the batch is 1.
class IPluginV2 {
 public:
  IPluginV2() = default;
  virtual ~IPluginV2() noexcept = default;
  virtual int32_t getTensorRTVersion() const noexcept { return static_cast<int32_t>(NV_TENSORRT_VERSION); }
  virtual AsciiChar const* getPluginType() const noexcept = 0;
  virtual AsciiChar const* getPluginVersion() const noexcept = 0;
  virtual int32_t getNbOutputs() const noexcept = 0;
  virtual Dims getOutputDimensions(int32_t index, Dims const* inputs, int32_t nbInputDims) noexcept = 0;
  virtual bool supportsFormat(DataType type, PluginFormat format) const noexcept = 0;
  virtual void configureWithFormat(Dims const* inputDims, int32_t nbInputs, Dims const* outputDims, int32_t nbOutputs,
                                   DataType type, PluginFormat format, int32_t maxBatchSize) noexcept = 0;
  virtual int32_t initialize() noexcept = 0;
  virtual void terminate() noexcept = 0;
  virtual size_t getWorkspaceSize(int32_t maxBatchSize) const noexcept = 0;
  virtual int32_t enqueue(int32_t batchSize, void const* const* inputs, void* const* outputs, void* workspace,
                          cudaStream_t stream) noexcept = 0;
  virtual size_t getSerializationSize() const noexcept = 0;
  virtual void serialize(void* buffer) const noexcept = 0;
  virtual void destroy() noexcept = 0;
  virtual IPluginV2* clone() const noexcept = 0;
  virtual void setPluginNamespace(AsciiChar const* pluginNamespace) noexcept = 0;
  virtual AsciiChar const* getPluginNamespace() const noexcept = 0;

  // ---- Of Camshaft: which of the interfaces below it is ----
  virtual IPluginV2Ext* camshaftExt() noexcept { return nullptr; }
  virtual IPluginV2IOExt* camshaftIO() noexcept { return nullptr; }
  virtual IPluginV2DynamicExt* camshaftDynamic() noexcept { return nullptr; }

 protected:
  IPluginV2(IPluginV2 const&) = default;
  IPluginV2(IPluginV2&&) = default;
  IPluginV2& operator=(IPluginV2 const&) & = default;
  IPluginV2& operator=(IPluginV2&&) & = default;
};

/// Adds element types of its own for each result.
class IPluginV2Ext : public IPluginV2 {
 public:
  IPluginV2Ext() = default;
  virtual DataType getOutputDataType(int32_t index, DataType const* inputTypes, int32_t nbInputs) const noexcept = 0;
  /// Not asked: nothing is broadcast over a batch.
  virtual bool isOutputBroadcastAcrossBatch(int32_t, bool const*, int32_t) const noexcept { return false; }
  virtual bool canBroadcastInputAcrossBatch(int32_t) const noexcept { return false; }
  virtual void configurePlugin(Dims const* inputDims, int32_t nbInputs, Dims const* outputDims, int32_t nbOutputs,
                               DataType const* inputTypes, DataType const* outputTypes, bool const* inputIsBroadcast,
                               bool const* outputIsBroadcast, PluginFormat floatFormat,
                               int32_t maxBatchSize) noexcept = 0;
  /// Called with nulls: there are no handles of cuDNN and cuBLAS to share.
  virtual void attachToContext(cudnnContext*, cublasContext*, IGpuAllocator*) noexcept {}
  virtual void detachFromContext() noexcept {}
  IPluginV2Ext* clone() const noexcept override = 0;

  IPluginV2Ext* camshaftExt() noexcept final { return this; }

 protected:
  int32_t getTensorRTVersion() const noexcept override { return versionOf(PluginVersion::kV2_EXT); }
  static int32_t versionOf(PluginVersion version) noexcept {
    return static_cast<int32_t>(version) << 24 | (NV_TENSORRT_VERSION & 0xFFFFFF);
  }
  void configureWithFormat(Dims const*, int32_t, Dims const*, int32_t, DataType, PluginFormat,
                           int32_t) noexcept override {}
  IPluginV2Ext(IPluginV2Ext const&) = default;
  IPluginV2Ext(IPluginV2Ext&&) = default;
  IPluginV2Ext& operator=(IPluginV2Ext const&) & = default;
  IPluginV2Ext& operator=(IPluginV2Ext&&) & = default;
};

/// Adds formats of its own for each operand and result.
class IPluginV2IOExt : public IPluginV2Ext {
 public:
  virtual void configurePlugin(PluginTensorDesc const* in, int32_t nbInput, PluginTensorDesc const* out,
                               int32_t nbOutput) noexcept = 0;
  virtual bool supportsFormatCombination(int32_t pos, PluginTensorDesc const* inOut, int32_t nbInputs,
                                         int32_t nbOutputs) const noexcept = 0;

  IPluginV2IOExt* camshaftIO() noexcept final { return this; }

 protected:
  int32_t getTensorRTVersion() const noexcept override { return versionOf(PluginVersion::kV2_IOEXT); }

  // What it has instead is above.
  void configurePlugin(Dims const*, int32_t, Dims const*, int32_t, DataType const*, DataType const*, bool const*,
                       bool const*, PluginFormat, int32_t) noexcept final {}
  bool supportsFormat(DataType, PluginFormat) const noexcept final { return false; }
};

class IPluginV2DynamicExt : public IPluginV2Ext {
 public:
  static constexpr int32_t kFORMAT_COMBINATION_LIMIT = 100;
  IPluginV2DynamicExt* clone() const noexcept override = 0;
  virtual DimsExprs getOutputDimensions(int32_t outputIndex, DimsExprs const* inputs, int32_t nbInputs,
                                        IExprBuilder& exprBuilder) noexcept = 0;
  virtual bool supportsFormatCombination(int32_t pos, PluginTensorDesc const* inOut, int32_t nbInputs,
                                         int32_t nbOutputs) noexcept = 0;
  virtual void configurePlugin(DynamicPluginTensorDesc const* in, int32_t nbInputs, DynamicPluginTensorDesc const* out,
                               int32_t nbOutputs) noexcept = 0;
  virtual size_t getWorkspaceSize(PluginTensorDesc const* inputs, int32_t nbInputs, PluginTensorDesc const* outputs,
                                  int32_t nbOutputs) const noexcept = 0;
  virtual int32_t enqueue(PluginTensorDesc const* inputDesc, PluginTensorDesc const* outputDesc,
                          void const* const* inputs, void* const* outputs, void* workspace,
                          cudaStream_t stream) noexcept = 0;

  IPluginV2DynamicExt* camshaftDynamic() noexcept final { return this; }

 protected:
  int32_t getTensorRTVersion() const noexcept override { return versionOf(PluginVersion::kV2_DYNAMICEXT); }
  ~IPluginV2DynamicExt() noexcept override = default;

  // What it has instead is above.
  Dims getOutputDimensions(int32_t, Dims const*, int32_t) noexcept final { return Dims{-1, {}}; }
  bool supportsFormat(DataType, PluginFormat) const noexcept final { return false; }
  void configurePlugin(Dims const*, int32_t, Dims const*, int32_t, DataType const*, DataType const*, bool const*,
                       bool const*, PluginFormat, int32_t) noexcept final {}
  size_t getWorkspaceSize(int32_t) const noexcept final { return 0; }
  int32_t enqueue(int32_t, void const* const*, void* const*, void*, cudaStream_t) noexcept final { return 1; }
  bool isOutputBroadcastAcrossBatch(int32_t, bool const*, int32_t) const noexcept final { return false; }
  bool canBroadcastInputAcrossBatch(int32_t) const noexcept final { return true; }
};

// ---- IPluginV3 ----

class IPluginCapability : public IVersionedInterface {};

class IPluginV3 : public IVersionedInterface {
 public:
  InterfaceInfo getInterfaceInfo() const noexcept override { return {"PLUGIN", 1, 0}; }
  virtual IPluginCapability* getCapabilityInterface(PluginCapabilityType type) noexcept = 0;
  virtual IPluginV3* clone() noexcept = 0;
};

class IPluginResource : public IVersionedInterface {
 public:
  InterfaceInfo getInterfaceInfo() const noexcept override { return {"IPluginResource", 1, 0}; }
  virtual int32_t release() noexcept = 0;
  virtual IPluginResource* clone() noexcept = 0;
};
class IPluginResourceContext {
 public:
  virtual ~IPluginResourceContext() noexcept = default;
  virtual IGpuAllocator* getGpuAllocator() const noexcept = 0;
  virtual IErrorRecorder* getErrorRecorder() const noexcept = 0;
};

class IPluginV3OneCore : public IPluginCapability {
 public:
  InterfaceInfo getInterfaceInfo() const noexcept override { return {"PLUGIN_V3ONE_CORE", 1, 0}; }
  virtual AsciiChar const* getPluginName() const noexcept = 0;
  virtual AsciiChar const* getPluginVersion() const noexcept = 0;
  virtual AsciiChar const* getPluginNamespace() const noexcept = 0;
};

class IPluginV3OneBuild : public IPluginCapability {
 public:
  static constexpr int32_t kDEFAULT_FORMAT_COMBINATION_LIMIT = 100;
  InterfaceInfo getInterfaceInfo() const noexcept override { return {"PLUGIN_V3ONE_BUILD", 1, 0}; }
  virtual int32_t configurePlugin(DynamicPluginTensorDesc const* in, int32_t nbInputs,
                                  DynamicPluginTensorDesc const* out, int32_t nbOutputs) noexcept = 0;
  virtual int32_t getOutputDataTypes(DataType* outputTypes, int32_t nbOutputs, DataType const* inputTypes,
                                     int32_t nbInputs) const noexcept = 0;
  virtual int32_t getOutputShapes(DimsExprs const* inputs, int32_t nbInputs, DimsExprs const* shapeInputs,
                                  int32_t nbShapeInputs, DimsExprs* outputs, int32_t nbOutputs,
                                  IExprBuilder& exprBuilder) noexcept = 0;
  virtual bool supportsFormatCombination(int32_t pos, DynamicPluginTensorDesc const* inOut, int32_t nbInputs,
                                         int32_t nbOutputs) noexcept = 0;
  virtual int32_t getNbOutputs() const noexcept = 0;
  virtual size_t getWorkspaceSize(DynamicPluginTensorDesc const*, int32_t, DynamicPluginTensorDesc const*,
                                  int32_t) const noexcept {
    return 0;
  }
  virtual int32_t getValidTactics(int32_t*, int32_t) noexcept { return 0; }
  virtual int32_t getNbTactics() noexcept { return 0; }
  virtual char const* getTimingCacheID() noexcept { return nullptr; }
  virtual int32_t getFormatCombinationLimit() noexcept { return kDEFAULT_FORMAT_COMBINATION_LIMIT; }
  virtual char const* getMetadataString() noexcept { return nullptr; }
};
/// That inputs may be written is not used here: each output has memory of its own.
class IPluginV3OneBuildV2 : public IPluginV3OneBuild {
 public:
  InterfaceInfo getInterfaceInfo() const noexcept override { return {"PLUGIN_V3ONE_BUILD", 2, 0}; }
  virtual int32_t getAliasedInput(int32_t) noexcept { return -1; }
};

class IPluginV3OneRuntime : public IPluginCapability {
 public:
  InterfaceInfo getInterfaceInfo() const noexcept override { return {"PLUGIN_V3ONE_RUNTIME", 1, 0}; }
  virtual int32_t setTactic(int32_t) noexcept { return 0; }
  virtual int32_t onShapeChange(PluginTensorDesc const* in, int32_t nbInputs, PluginTensorDesc const* out,
                                int32_t nbOutputs) noexcept = 0;
  virtual int32_t enqueue(PluginTensorDesc const* inputDesc, PluginTensorDesc const* outputDesc,
                          void const* const* inputs, void* const* outputs, void* workspace,
                          cudaStream_t stream) noexcept = 0;
  virtual IPluginV3* attachToContext(IPluginResourceContext* context) noexcept = 0;
  virtual PluginFieldCollection const* getFieldsToSerialize() noexcept = 0;
};

// ---- Creators ----

class IPluginCreator;
class IPluginCreatorV3One;

class IPluginCreatorInterface : public IVersionedInterface {
 public:
  // ---- Of Camshaft ----
  virtual IPluginCreator* camshaftV1() noexcept { return nullptr; }
  virtual IPluginCreatorV3One* camshaftV3() noexcept { return nullptr; }
};

class IPluginCreator : public IPluginCreatorInterface {
 public:
  InterfaceInfo getInterfaceInfo() const noexcept override { return {"PLUGIN CREATOR_V1", 1, 0}; }
  virtual AsciiChar const* getPluginName() const noexcept = 0;
  virtual AsciiChar const* getPluginVersion() const noexcept = 0;
  virtual PluginFieldCollection const* getFieldNames() noexcept = 0;
  virtual IPluginV2* createPlugin(AsciiChar const* name, PluginFieldCollection const* fc) noexcept = 0;
  virtual IPluginV2* deserializePlugin(AsciiChar const* name, void const* serialData, size_t serialLength) noexcept = 0;
  virtual void setPluginNamespace(AsciiChar const* pluginNamespace) noexcept = 0;
  virtual AsciiChar const* getPluginNamespace() const noexcept = 0;

  IPluginCreator* camshaftV1() noexcept final { return this; }
};

class IPluginCreatorV3One : public IPluginCreatorInterface {
 public:
  InterfaceInfo getInterfaceInfo() const noexcept override { return {"PLUGIN CREATOR_V3ONE", 1, 0}; }
  virtual IPluginV3* createPlugin(AsciiChar const* name, PluginFieldCollection const* fc,
                                  TensorRTPhase phase) noexcept = 0;
  virtual PluginFieldCollection const* getFieldNames() noexcept = 0;
  virtual AsciiChar const* getPluginName() const noexcept = 0;
  virtual AsciiChar const* getPluginVersion() const noexcept = 0;
  virtual AsciiChar const* getPluginNamespace() const noexcept = 0;

  IPluginCreatorV3One* camshaftV3() noexcept final { return this; }
};

namespace v_1_0 {
using nvinfer1::IErrorRecorder;
using nvinfer1::IGpuAllocator;
using nvinfer1::ILogger;
using nvinfer1::IPluginCapability;
using nvinfer1::IPluginCreator;
using nvinfer1::IPluginCreatorInterface;
using nvinfer1::IPluginCreatorV3One;
using nvinfer1::IPluginResource;
using nvinfer1::IPluginV3;
using nvinfer1::IPluginV3OneBuild;
using nvinfer1::IPluginV3OneCore;
using nvinfer1::IPluginV3OneRuntime;
}  // namespace v_1_0
namespace v_2_0 {
using IPluginV3OneBuild = nvinfer1::IPluginV3OneBuildV2;
}  // namespace v_2_0

}  // namespace nvinfer1
