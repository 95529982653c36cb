// A plugin of TensorRT's IPluginV3: the rows of a matrix whose first element is above a threshold, and how many they
// are, which only running tells. A second one, of known sizes, weights its input by what its creator is given.
#include <NvInferRuntime.h>

#include <cstring>
#include <ctime>
#include <string>
#include <vector>

using namespace nvinfer1;

namespace {

class KeptRows : public IPluginV3, public IPluginV3OneCore, public IPluginV3OneBuild, public IPluginV3OneRuntime {
 public:
  explicit KeptRows(float threshold) : mThreshold(threshold) {
    mField = PluginField("threshold", &mThreshold, PluginFieldType::kFLOAT32, 1);
    mCollection = {1, &mField};
  }

  IPluginCapability* getCapabilityInterface(PluginCapabilityType type) noexcept override {
    switch (type) {
      case PluginCapabilityType::kBUILD:
        return static_cast<IPluginV3OneBuild*>(this);
      case PluginCapabilityType::kRUNTIME:
        return static_cast<IPluginV3OneRuntime*>(this);
      case PluginCapabilityType::kCORE:
        return static_cast<IPluginV3OneCore*>(this);
    }
    return nullptr;
  }
  IPluginV3* clone() noexcept override { return new KeptRows(mThreshold); }

  AsciiChar const* getPluginName() const noexcept override { return "KeptRows"; }
  AsciiChar const* getPluginVersion() const noexcept override { return "2"; }
  AsciiChar const* getPluginNamespace() const noexcept override { return "own"; }

  int32_t getNbOutputs() const noexcept override { return 2; }
  int32_t configurePlugin(DynamicPluginTensorDesc const*, int32_t, DynamicPluginTensorDesc const*,
                          int32_t) noexcept override {
    return 0;
  }
  bool supportsFormatCombination(int32_t pos, DynamicPluginTensorDesc const* inOut, int32_t,
                                 int32_t) noexcept override {
    DataType const wanted = pos == 2 ? DataType::kINT64 : DataType::kFLOAT;
    return inOut[pos].desc.format == PluginFormat::kLINEAR && inOut[pos].desc.type == wanted;
  }
  int32_t getOutputDataTypes(DataType* outputTypes, int32_t, DataType const* inputTypes,
                             int32_t) const noexcept override {
    outputTypes[0] = inputTypes[0];
    outputTypes[1] = DataType::kINT64;
    return 0;
  }
  int32_t getOutputShapes(DimsExprs const* inputs, int32_t, DimsExprs const*, int32_t, DimsExprs* outputs, int32_t,
                          IExprBuilder& exprBuilder) noexcept override {
    IDimensionExpr const* upper = inputs[0].d[0];
    IDimensionExpr const* half =
        exprBuilder.operation(DimensionOperation::kFLOOR_DIV, *upper, *exprBuilder.constant(2));
    outputs[0].nbDims = 2;
    outputs[0].d[0] = exprBuilder.declareSizeTensor(1, *half, *upper);
    outputs[0].d[1] = inputs[0].d[1];
    outputs[1].nbDims = 0;
    return 0;
  }
  int32_t onShapeChange(PluginTensorDesc const* in, int32_t, PluginTensorDesc const*, int32_t) noexcept override {
    mRows = in[0].dims.d[0];
    mColumns = in[0].dims.d[1];
    return 0;
  }
  int32_t enqueue(PluginTensorDesc const*, PluginTensorDesc const*, void const* const* inputs, void* const* outputs,
                  void*, cudaStream_t) noexcept override {
    auto const* from = static_cast<float const*>(inputs[0]);
    auto* to = static_cast<float*>(outputs[0]);
    int64_t kept = 0;
    for (int64_t row = 0; row < mRows; ++row) {
      if (from[row * mColumns] <= mThreshold) continue;
      std::memcpy(to + kept * mColumns, from + row * mColumns, static_cast<size_t>(mColumns) * sizeof(float));
      ++kept;
    }
    *static_cast<int64_t*>(outputs[1]) = kept;
    return 0;
  }
  IPluginV3* attachToContext(IPluginResourceContext*) noexcept override { return clone(); }
  PluginFieldCollection const* getFieldsToSerialize() noexcept override { return &mCollection; }

 private:
  float mThreshold;
  int64_t mRows{}, mColumns{};
  PluginField mField;
  PluginFieldCollection mCollection{};
};

class KeptRowsCreator : public IPluginCreatorV3One {
 public:
  KeptRowsCreator() {
    mField = PluginField("threshold", nullptr, PluginFieldType::kFLOAT32, 1);
    mCollection = {1, &mField};
  }
  AsciiChar const* getPluginName() const noexcept override { return "KeptRows"; }
  AsciiChar const* getPluginVersion() const noexcept override { return "2"; }
  AsciiChar const* getPluginNamespace() const noexcept override { return "own"; }
  PluginFieldCollection const* getFieldNames() noexcept override { return &mCollection; }
  IPluginV3* createPlugin(AsciiChar const*, PluginFieldCollection const* fc, TensorRTPhase) noexcept override {
    float threshold = 0;
    for (int32_t i = 0; i < fc->nbFields; ++i)
      if (std::string(fc->fields[i].name) == "threshold") threshold = *static_cast<float const*>(fc->fields[i].data);
    return new KeptRows(threshold);
  }

 private:
  PluginField mField;
  PluginFieldCollection mCollection{};
};

// ---- Of known sizes, with two tactics, fields of several types and an operand that is a shape ----

class Weighted : public IPluginV3, public IPluginV3OneCore, public IPluginV3OneBuildV2, public IPluginV3OneRuntime {
 public:
  Weighted(std::vector<float> weights, std::vector<int64_t> order, TensorRTPhase phase)
      : mWeights(std::move(weights)), mOrder(std::move(order)), mPhase(phase) {
    mFields = {
        PluginField("weights", mWeights.data(), PluginFieldType::kFLOAT32, static_cast<int32_t>(mWeights.size())),
        PluginField("order", mOrder.data(), PluginFieldType::kINT64, static_cast<int32_t>(mOrder.size()))};
    mCollection = {2, mFields.data()};
  }
  Weighted(Weighted const& other) : Weighted(other.mWeights, other.mOrder, other.mPhase) {}

  IPluginCapability* getCapabilityInterface(PluginCapabilityType type) noexcept override {
    if (type == PluginCapabilityType::kBUILD) return static_cast<IPluginV3OneBuild*>(this);
    if (type == PluginCapabilityType::kRUNTIME) return static_cast<IPluginV3OneRuntime*>(this);
    return static_cast<IPluginV3OneCore*>(this);
  }
  IPluginV3* clone() noexcept override { return new Weighted(*this); }
  AsciiChar const* getPluginName() const noexcept override { return "Weighted"; }
  AsciiChar const* getPluginVersion() const noexcept override { return "1"; }
  AsciiChar const* getPluginNamespace() const noexcept override { return ""; }
  int32_t getNbOutputs() const noexcept override { return 1; }
  int32_t configurePlugin(DynamicPluginTensorDesc const*, int32_t, DynamicPluginTensorDesc const*,
                          int32_t) noexcept override {
    return 0;
  }
  bool supportsFormatCombination(int32_t pos, DynamicPluginTensorDesc const* inOut, int32_t nbInputs,
                                 int32_t) noexcept override {
    return inOut[pos].desc.type == (pos == 1 && nbInputs == 2 ? DataType::kINT64 : DataType::kFLOAT);
  }
  int32_t getOutputDataTypes(DataType* outputTypes, int32_t, DataType const*, int32_t) const noexcept override {
    outputTypes[0] = DataType::kFLOAT;
    return 0;
  }
  // [rows, padded columns]: the operand that is a shape says by how many columns.
  int32_t getOutputShapes(DimsExprs const* inputs, int32_t, DimsExprs const* shapeInputs, int32_t nbShapeInputs,
                          DimsExprs* outputs, int32_t, IExprBuilder& exprBuilder) noexcept override {
    outputs[0] = inputs[0];
    if (nbShapeInputs == 1)
      outputs[0].d[1] = exprBuilder.operation(DimensionOperation::kSUM, *inputs[0].d[1], *shapeInputs[0].d[0]);
    return 0;
  }
  int32_t getNbTactics() noexcept override { return 2; }
  int32_t getValidTactics(int32_t* tactics, int32_t) noexcept override {
    tactics[0] = 7;
    tactics[1] = 8;
    return 0;
  }
  int32_t setTactic(int32_t tactic) noexcept override {
    mTactic = tactic;
    return 0;
  }
  int32_t onShapeChange(PluginTensorDesc const*, int32_t, PluginTensorDesc const*, int32_t) noexcept override {
    return 0;
  }
  int32_t enqueue(PluginTensorDesc const* in, PluginTensorDesc const* out, void const* const* inputs,
                  void* const* outputs, void*, cudaStream_t) noexcept override {
    if ((mTactic != 7 && mTactic != 8) || mPhase != TensorRTPhase::kRUNTIME) return 4;
    if (mTactic == 7)  // ten milliseconds of work that the other one does without
      for (auto const end = std::clock() + CLOCKS_PER_SEC / 100; std::clock() < end;) {
      }
    for (int64_t row = 0; row < in[0].dims.d[0]; ++row)
      for (int64_t c = 0; c < out[0].dims.d[1]; ++c) {
        float value = -1;
        if (c < in[0].dims.d[1]) {
          auto const from = mOrder[static_cast<size_t>(c)];
          value = static_cast<float const*>(inputs[0])[row * in[0].dims.d[1] + from] * mWeights[static_cast<size_t>(c)];
        }
        static_cast<float*>(outputs[0])[row * out[0].dims.d[1] + c] = value;
      }
    return 0;
  }
  IPluginV3* attachToContext(IPluginResourceContext* context) noexcept override {
    return context->getErrorRecorder() ? nullptr : clone();
  }
  PluginFieldCollection const* getFieldsToSerialize() noexcept override { return &mCollection; }

 private:
  std::vector<float> mWeights;
  std::vector<int64_t> mOrder;
  TensorRTPhase mPhase;
  int32_t mTactic = -1;
  std::vector<PluginField> mFields;
  PluginFieldCollection mCollection{};
};

class WeightedCreator : public IPluginCreatorV3One {
 public:
  AsciiChar const* getPluginName() const noexcept override { return "Weighted"; }
  AsciiChar const* getPluginVersion() const noexcept override { return "1"; }
  AsciiChar const* getPluginNamespace() const noexcept override { return ""; }
  PluginFieldCollection const* getFieldNames() noexcept override { return &mCollection; }
  IPluginV3* createPlugin(AsciiChar const*, PluginFieldCollection const* fc, TensorRTPhase phase) noexcept override {
    std::vector<float> weights;
    std::vector<int64_t> order;
    for (int32_t i = 0; i < fc->nbFields; ++i) {
      PluginField const& field = fc->fields[i];
      if (std::string(field.name) == "weights" && field.type == PluginFieldType::kFLOAT32)
        weights.assign(static_cast<float const*>(field.data), static_cast<float const*>(field.data) + field.length);
      if (std::string(field.name) == "order" && field.type == PluginFieldType::kINT64)
        order.assign(static_cast<int64_t const*>(field.data), static_cast<int64_t const*>(field.data) + field.length);
    }
    if (weights.size() != order.size() || weights.empty()) return nullptr;
    return new Weighted(weights, order, phase);
  }

 private:
  PluginField mFields[2] = {PluginField("weights", nullptr, PluginFieldType::kFLOAT32, 1),
                            PluginField("order", nullptr, PluginFieldType::kINT64, 1)};
  PluginFieldCollection mCollection{2, mFields};
};

#if !defined(GET_CREATORS)
REGISTER_TENSORRT_PLUGIN(KeptRowsCreator);
REGISTER_TENSORRT_PLUGIN(WeightedCreator);
#endif

}  // namespace

#if defined(GET_CREATORS)
extern "C" TENSORRTAPI IPluginCreatorInterface* const* getCreators(int32_t& nbCreators) {
  static KeptRowsCreator kept;
  static WeightedCreator weighted;
  static IPluginCreatorInterface* const creators[] = {&kept, &weighted};
  nbCreators = 2;
  return creators;
}
extern "C" TENSORRTAPI void setLoggerFinder(ILoggerFinder* finder) {
  finder->findLogger()->log(ILogger::Severity::kVERBOSE, "found");
}
#endif
