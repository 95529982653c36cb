// Functions of a library that works with the registry by hand, as TensorRT's own libraries do: what they find and
// register is that of the whole process. BY_CREATORS and BY_INIT make it one that registers its creator when it is
// loaded, THROWS one whose function throws then.
#include <NvInfer.h>
#include <NvInferPlugin.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#ifndef NAME
#define NAME "Twice"
#endif

namespace {

using namespace nvinfer1;

/// Times two (or another factor), of any number of axes.
template <int factor>
class Times : public IPluginV3, public IPluginV3OneCore, public IPluginV3OneBuild, public IPluginV3OneRuntime {
 public:
  IPluginCapability* getCapabilityInterface(PluginCapabilityType type) noexcept override {
    if (type == PluginCapabilityType::kBUILD) return static_cast<IPluginV3OneBuild*>(this);
    if (type == PluginCapabilityType::kRUNTIME) return static_cast<IPluginV3OneRuntime*>(this);
    return static_cast<IPluginV3OneCore*>(this);
  }
  IPluginV3* clone() noexcept override { return new Times; }
  char const* getPluginName() const noexcept override { return NAME; }
  char const* getPluginVersion() const noexcept override { return "1"; }
  char const* getPluginNamespace() const noexcept override { return ""; }
  int32_t getNbOutputs() const noexcept override { return 1; }
  int32_t configurePlugin(DynamicPluginTensorDesc const*, int32_t, DynamicPluginTensorDesc const*,
                          int32_t) noexcept override {
    return 0;
  }
  bool supportsFormatCombination(int32_t pos, DynamicPluginTensorDesc const* inOut, int32_t,
                                 int32_t) noexcept override {
    return inOut[pos].desc.format == PluginFormat::kLINEAR && inOut[pos].desc.type == DataType::kFLOAT;
  }
  int32_t getOutputDataTypes(DataType* outputTypes, int32_t, DataType const* inputTypes,
                             int32_t) const noexcept override {
    outputTypes[0] = inputTypes[0];
    return 0;
  }
  int32_t getOutputShapes(DimsExprs const* inputs, int32_t, DimsExprs const*, int32_t, DimsExprs* outputs, int32_t,
                          IExprBuilder&) noexcept override {
    outputs[0] = inputs[0];
    return 0;
  }
  int32_t enqueue(PluginTensorDesc const* inputDesc, PluginTensorDesc const*, void const* const* inputs,
                  void* const* outputs, void*, cudaStream_t) noexcept override {
    int64_t count = 1;
    for (int32_t axis = 0; axis < inputDesc[0].dims.nbDims; ++axis) count *= inputDesc[0].dims.d[axis];
    for (int64_t i = 0; i < count; ++i)
      static_cast<float*>(outputs[0])[i] = factor * static_cast<float const*>(inputs[0])[i];
    return 0;
  }
  int32_t onShapeChange(PluginTensorDesc const*, int32_t, PluginTensorDesc const*, int32_t) noexcept override {
    return 0;
  }
  IPluginV3* attachToContext(IPluginResourceContext*) noexcept override { return clone(); }
  PluginFieldCollection const* getFieldsToSerialize() noexcept override { return &mFields; }

 private:
  PluginFieldCollection mFields{0, nullptr};
};

template <int factor>
class Creator : public IPluginCreatorV3One {
 public:
  char const* getPluginName() const noexcept override { return NAME; }
  char const* getPluginVersion() const noexcept override { return "1"; }
  char const* getPluginNamespace() const noexcept override { return ""; }
  PluginFieldCollection const* getFieldNames() noexcept override { return &mFields; }
  IPluginV3* createPlugin(char const*, PluginFieldCollection const*, TensorRTPhase) noexcept override {
    return new Times<factor>;
  }

 private:
  PluginFieldCollection mFields{0, nullptr};
};

std::atomic<int32_t> clones{0};

class Counter : public IPluginResource {
 public:
  int32_t release() noexcept override { return 0; }
  /// Registries are called while they hold a resource, and this one takes a while.
  IPluginResource* clone() noexcept override {
    getPluginRegistry()->getCreator("none", "1");
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ++clones;
    return new Counter;
  }
};

template <int factor = 2>
Creator<factor>& creator() {
  static auto* const one = new Creator<factor>;
  return *one;
}

}  // namespace

#if defined(THROWS)
extern "C" TENSORRTAPI IPluginCreatorInterface* const* getCreators(int32_t&) {
  throw std::runtime_error("no creators today");
}
#elif defined(BY_CREATORS)
extern "C" TENSORRTAPI IPluginCreatorInterface* const* getCreators(int32_t& nbCreators) {
  static IPluginCreatorInterface* const all[] = {&creator()};
#ifdef OWN_PATH  // of this library: what it gives by then is loaded, and this function is not called again
  static bool const is_loaded = getPluginRegistry()->loadLibrary(OWN_PATH) != nullptr;
  if (!is_loaded) throw std::runtime_error("it is not loaded");
#endif
  nbCreators = 1;
  return all;
}
extern "C" TENSORRTAPI void setLoggerFinder(ILoggerFinder* finder) {
  finder->findLogger()->log(ILogger::Severity::kWARNING, "the logger is found");
}
#elif defined(BY_INIT)
extern "C" TENSORRTAPI bool initLibNvInferPlugins(void* logger, char const* libNamespace) {
  return logger && getPluginRegistry()->registerCreator(creator(), libNamespace);
}
#endif

extern "C" {
TENSORRTAPI bool registerTwice(char const* space) {
  return getPluginRegistry()->registerCreator(creator(), space);
}
/// Another class of that name, in the place of the first one where that is there.
TENSORRTAPI bool registerThrice() {
  getPluginRegistry()->deregisterCreator(creator());
  return getPluginRegistry()->registerCreator(creator<3>(), "");
}
/// The first class again, or a new object of it.
TENSORRTAPI bool registerTwiceAgain(bool is_new) {
  getPluginRegistry()->deregisterCreator(creator<3>());
  return getPluginRegistry()->registerCreator(is_new ? *new Creator<2> : creator(), "");
}
TENSORRTAPI bool deregisterTwice() {
  return getPluginRegistry()->deregisterCreator(creator());
}
TENSORRTAPI int32_t clonesMade() {
  return clones;
}
TENSORRTAPI bool deregister(char const* name, char const* space) {
  IPluginCreatorInterface* found = getPluginRegistry()->getCreator(name, "1", space);
  return found && getPluginRegistry()->deregisterCreator(*found);
}
TENSORRTAPI void* find(char const* name, char const* space) {
  return getPluginRegistry()->getCreator(name, "1", space);
}
/// How many creators of that name the lists have, those of IPluginCreator in the tens.
TENSORRTAPI int32_t count(char const* name) {
  int32_t all = 0, v1 = 0, found = 0;
  IPluginCreatorInterface* const* every = getPluginRegistry()->getAllCreators(&all);
  for (int32_t i = 0; i < all; ++i) {
    IPluginCreatorV3One* v3 = every[i]->camshaftV3();
    if (std::strcmp(v3 ? v3->getPluginName() : every[i]->camshaftV1()->getPluginName(), name) == 0) ++found;
  }
  IPluginCreator* const* list = getPluginRegistry()->getPluginCreatorList(&v1);
  for (int32_t i = 0; i < v1; ++i)
    if (std::strcmp(list[i]->getPluginName(), name) == 0) found += 10;
  return found;
}
TENSORRTAPI void* acquire(char const* key) {
  Counter counter;
  return getPluginRegistry()->acquirePluginResource(key, &counter);
}
TENSORRTAPI int32_t release(char const* key) {
  return getPluginRegistry()->releasePluginResource(key);
}
TENSORRTAPI void* load(char const* path) {
  return getPluginRegistry()->loadLibrary(path);
}
TENSORRTAPI void unload(void* handle) {
  getPluginRegistry()->deregisterLibrary(handle);
}
/// What the documentation has beside, as sources call it.
TENSORRTAPI bool others() {
  IPluginRegistry& registry = *getPluginRegistry();
  registry.setErrorRecorder(nullptr);
  registry.setParentSearchEnabled(false);
  int32_t count = -1;
  registry.getAllCreatorsRecursive(&count);
  IPluginRegistry::PluginLibraryHandle none = nullptr;
  return registry.getErrorRecorder() == nullptr && !registry.isParentSearchEnabled() && none == nullptr && count == 0 &&
         getBuilderPluginRegistry(EngineCapability::kSTANDARD) == &registry &&
         getInferLibMajorVersion() == NV_TENSORRT_MAJOR && registry.getPluginCreator(NAME, "1", "") == nullptr
#if !defined(BY_INIT)
         && initLibNvInferPlugins(getLogger(), "")
#endif
      ;
}
}
