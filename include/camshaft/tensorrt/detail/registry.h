// The creators of a library, and what its plugins share.
#pragma once

#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "camshaft/tensorrt/detail/plugins.h"

namespace nvinfer1 {

class IPluginRegistry {
 public:
  /// False where one of that name, version and namespace is there.
  bool registerCreator(IPluginCreatorInterface& creator, AsciiChar const* pluginNamespace) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!creator.camshaftV1() && !creator.camshaftV3()) return false;
    const std::string space = pluginNamespace ? pluginNamespace : "";
    if (creator.camshaftV1() && !space.empty()) creator.camshaftV1()->setPluginNamespace(pluginNamespace);
    for (IPluginCreatorInterface* known : creators_)
      if (names(known) == names(&creator)) return false;
    creators_.push_back(&creator);
    return true;
  }
  bool deregisterCreator(IPluginCreatorInterface const& creator) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (size_t i = 0; i < creators_.size(); ++i)
      if (creators_[i] == &creator) {
        creators_.erase(creators_.begin() + static_cast<std::ptrdiff_t>(i));
        return true;
      }
    return false;
  }
  IPluginCreatorInterface* const* getAllCreators(int32_t* numCreators) const noexcept {
    *numCreators = static_cast<int32_t>(creators_.size());
    return creators_.data();
  }
  IPluginCreatorInterface* getCreator(AsciiChar const* pluginName, AsciiChar const* pluginVersion,
                                      AsciiChar const* pluginNamespace = "") noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (IPluginCreatorInterface* known : creators_)
      if (names(known) == std::vector<std::string>{pluginName, pluginVersion, pluginNamespace}) return known;
    return nullptr;
  }
  IPluginCreator* getPluginCreator(AsciiChar const* pluginName, AsciiChar const* pluginVersion,
                                   AsciiChar const* pluginNamespace = "") noexcept {
    IPluginCreatorInterface* found = getCreator(pluginName, pluginVersion, pluginNamespace);
    return found ? found->camshaftV1() : nullptr;
  }

  void setErrorRecorder(IErrorRecorder* recorder) noexcept { recorder_ = recorder; }
  IErrorRecorder* getErrorRecorder() const noexcept { return recorder_; }
  bool isParentSearchEnabled() const noexcept { return false; }
  void setParentSearchEnabled(bool) noexcept {}

  /// A clone of `resource` under that key, made with the first call; each call is to be followed by a release.
  IPluginResource* acquirePluginResource(AsciiChar const* key, IPluginResource* resource) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    auto& kept = resources_[key];
    if (!kept.first && resource) kept.first = resource->clone();
    if (kept.first) ++kept.second;
    return kept.first;
  }
  /// 0, or -1 for a key that nothing is kept under.
  int32_t releasePluginResource(AsciiChar const* key) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto it = resources_.find(key);
    if (it == resources_.end() || !it->second.first) return -1;
    if (--it->second.second > 0) return 0;
    it->second.first->release();
    delete it->second.first;
    resources_.erase(it);
    return 0;
  }

  // ---- Of Camshaft ----
  /// Name, version and namespace.
  static std::vector<std::string> names(IPluginCreatorInterface* creator) {
    const auto texts = [](auto* of) {
      const auto text = [](AsciiChar const* given) { return std::string(given ? given : ""); };
      return std::vector<std::string>{text(of->getPluginName()), text(of->getPluginVersion()),
                                      text(of->getPluginNamespace())};
    };
    if (auto* v1 = creator->camshaftV1()) return texts(v1);
    return texts(creator->camshaftV3());
  }

 private:
  mutable std::mutex mutex_;
  std::vector<IPluginCreatorInterface*> creators_;
  std::map<std::string, std::pair<IPluginResource*, int64_t>> resources_;
  IErrorRecorder* recorder_ = nullptr;
};

namespace camshaft_detail {

/// Writes warnings and errors to the error output.
class StandardLogger : public ILogger {
 public:
  void log(Severity severity, AsciiChar const* msg) noexcept override {
    if (severity <= Severity::kWARNING) std::fprintf(stderr, "plugin: %s\n", msg);
  }
};

CAMSHAFT_TENSORRT_OWN inline IPluginRegistry& registry() {
  static auto* const one = new IPluginRegistry;  // creators are registered, and used, outside of main()
  return *one;
}
CAMSHAFT_TENSORRT_OWN inline ILogger& logger() {
  static auto* const one = new StandardLogger;
  return *one;
}

}  // namespace camshaft_detail

template <typename T>
class PluginRegistrar {
 public:
  PluginRegistrar() { camshaft_detail::registry().registerCreator(instance_, ""); }

 private:
  T instance_{};
};

}  // namespace nvinfer1

CAMSHAFT_TENSORRT_OWN inline nvinfer1::IPluginRegistry* getPluginRegistry() noexcept {
  return &nvinfer1::camshaft_detail::registry();
}
CAMSHAFT_TENSORRT_OWN inline nvinfer1::ILogger* getLogger() noexcept {
  return &nvinfer1::camshaft_detail::logger();
}
CAMSHAFT_TENSORRT_OWN inline int32_t getInferLibVersion() noexcept {
  return static_cast<int32_t>(NV_TENSORRT_VERSION);
}

#define REGISTER_TENSORRT_PLUGIN(name) \
  static nvinfer1::PluginRegistrar<name> pluginRegistrar##name {}
