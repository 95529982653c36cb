// A plugin of a node, behind one interface for both generations.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "camshaft/tensorrt/detail/fields.h"

namespace nvinfer1 {
namespace camshaft_detail CAMSHAFT_TENSORRT_OWN {

using Descs = std::vector<PluginTensorDesc>;

/// Sizes that are not known are -1 in the description, and 1 in its range: nothing says more.
inline std::vector<DynamicPluginTensorDesc> dynamic(Descs const& descs) {
  std::vector<DynamicPluginTensorDesc> all;
  for (PluginTensorDesc const& desc : descs) {
    Dims known = desc.dims;
    for (int32_t axis = 0; axis < known.nbDims; ++axis) known.d[axis] = known.d[axis] < 0 ? 1 : known.d[axis];
    all.push_back({desc, known, known, known});
  }
  return all;
}
inline int32_t count_of(Descs const& descs) {
  return static_cast<int32_t>(descs.size());
}

/// What is known of results: types, and sizes as expressions.
struct Results {
  std::vector<DataType> types;
  std::vector<DimsExprs> dims;
};

/// A plugin that runs. One at a time uses it.
class Running {
 public:
  virtual ~Running() = default;
  /// To be called in front of shape(): the plugin's number, 0 for one without any. Throws.
  virtual void take_tactic(int32_t) {}
  /// To be called where shapes are others than in the run before. Throws.
  virtual void shape(Descs const& in, Descs const& out) = 0;
  virtual int32_t enqueue(Descs const& in, Descs const& out, void const* const* inputs, void* const* outputs,
                          void* workspace, cudaStream_t stream) = 0;
};

/// A plugin of a node. Throws std::runtime_error that says what is wrong.
class Plugin {
 public:
  virtual ~Plugin() = default;
  virtual std::string stored() = 0;
  virtual int32_t outputs() = 0;
  virtual Results results(std::vector<DataType> const& types, std::vector<DimsExprs> const& dims,
                          std::vector<DimsExprs> const& shapes, IExprBuilder& builder, int32_t outputs) = 0;
  virtual bool supports(int32_t place, Descs const& all, int32_t inputs) = 0;
  /// Configures it for shapes, and says what workspace it takes then.
  virtual size_t workspace(Descs const& in, Descs const& out) = 0;
  virtual std::unique_ptr<Running> clone() = 0;
  /// The numbers of its tactics for such operands; none where it has only one.
  virtual std::vector<int32_t> tactics(Descs const&, Descs const&) { return {}; }
};

// ---- IPluginV2DynamicExt ----

inline std::string serialized(IPluginV2 const& plugin) {
  std::string bytes(plugin.getSerializationSize(), '\0');
  plugin.serialize(&bytes[0]);
  return bytes;
}

class PluginV2 : public Plugin {
 public:
  explicit PluginV2(IPluginV2DynamicExt* plugin) : plugin_(plugin) {}
  ~PluginV2() override { static_cast<IPluginV2*>(plugin_)->destroy(); }

  std::string stored() override { return serialized(*plugin_); }
  int32_t outputs() override { return plugin_->getNbOutputs(); }
  Results results(std::vector<DataType> const& types, std::vector<DimsExprs> const& dims,
                  std::vector<DimsExprs> const& shapes, IExprBuilder& builder, int32_t outputs) override {
    if (!shapes.empty()) throw std::runtime_error("an IPluginV2DynamicExt has no shape inputs");
    Results results;
    const auto inputs = static_cast<int32_t>(types.size());
    for (int32_t o = 0; o < outputs; ++o) {
      results.types.push_back(plugin_->getOutputDataType(o, types.data(), inputs));
      results.dims.push_back(plugin_->getOutputDimensions(o, dims.data(), inputs, builder));
    }
    return results;
  }
  bool supports(int32_t place, Descs const& all, int32_t inputs) override {
    return plugin_->supportsFormatCombination(place, all.data(), inputs, count_of(all) - inputs);
  }
  size_t workspace(Descs const& in, Descs const& out) override {
    configure(*plugin_, in, out);
    return plugin_->getWorkspaceSize(in.data(), count_of(in), out.data(), count_of(out));
  }
  std::unique_ptr<Running> clone() override {
    IPluginV2DynamicExt* made = plugin_->clone();
    if (!made) throw std::runtime_error("clone() gave nothing");
    std::unique_ptr<RunningV2> running(new RunningV2(made));
    made->attachToContext(nullptr, nullptr, nullptr);
    const int32_t status = made->initialize();
    if (status != 0) throw std::runtime_error("initialize() gave " + std::to_string(status));
    running->initialized = true;
    return std::unique_ptr<Running>(std::move(running));
  }

 private:
  static void configure(IPluginV2DynamicExt& plugin, Descs const& in, Descs const& out) {
    plugin.configurePlugin(dynamic(in).data(), count_of(in), dynamic(out).data(), count_of(out));
  }
  struct RunningV2 : Running {
    explicit RunningV2(IPluginV2DynamicExt* made) : plugin(made) {}
    ~RunningV2() override {
      if (initialized) plugin->terminate();
      plugin->detachFromContext();
      plugin->destroy();
    }
    void shape(Descs const& in, Descs const& out) override { configure(*plugin, in, out); }
    int32_t enqueue(Descs const& in, Descs const& out, void const* const* inputs, void* const* outputs, void* workspace,
                    cudaStream_t stream) override {
      return plugin->enqueue(in.data(), out.data(), inputs, outputs, workspace, stream);
    }
    IPluginV2DynamicExt* plugin;
    bool initialized = false;
  };

  IPluginV2DynamicExt* plugin_;
};

// ---- IPluginV3 ----

template <class Capability>
Capability& capability(IPluginV3& plugin, PluginCapabilityType type, char const* name) {
  if (auto* found = static_cast<Capability*>(plugin.getCapabilityInterface(type))) return *found;
  throw std::runtime_error(std::string("getCapabilityInterface() has no ") + name);
}

class PluginV3 : public Plugin {
 public:
  explicit PluginV3(IPluginV3* plugin)
      : plugin_(plugin),
        build_(capability<IPluginV3OneBuild>(*plugin, PluginCapabilityType::kBUILD,
                                             "kBUILD, which sizes of results need")),
        runtime_(capability<IPluginV3OneRuntime>(*plugin, PluginCapabilityType::kRUNTIME, "kRUNTIME")) {}

  std::string stored() override { return Fields::stored(runtime_.getFieldsToSerialize()); }
  int32_t outputs() override { return build_.getNbOutputs(); }
  Results results(std::vector<DataType> const& types, std::vector<DimsExprs> const& dims,
                  std::vector<DimsExprs> const& shapes, IExprBuilder& builder, int32_t outputs) override {
    const auto count = static_cast<size_t>(outputs);
    Results results{std::vector<DataType>(count), std::vector<DimsExprs>(count)};
    const auto inputs = static_cast<int32_t>(types.size());
    check("getOutputDataTypes()", build_.getOutputDataTypes(results.types.data(), outputs, types.data(), inputs));
    check("getOutputShapes()",
          build_.getOutputShapes(dims.data(), static_cast<int32_t>(dims.size()), shapes.data(),
                                 static_cast<int32_t>(shapes.size()), results.dims.data(), outputs, builder));
    return results;
  }
  bool supports(int32_t place, Descs const& all, int32_t inputs) override {
    return build_.supportsFormatCombination(place, dynamic(all).data(), inputs, count_of(all) - inputs);
  }
  size_t workspace(Descs const& in, Descs const& out) override {
    const auto ins = dynamic(in), outs = dynamic(out);
    configure(ins, outs);
    return build_.getWorkspaceSize(ins.data(), count_of(in), outs.data(), count_of(out));
  }
  std::unique_ptr<Running> clone() override {
    std::unique_ptr<RunningV3> running(new RunningV3());
    running->plugin.reset(runtime_.attachToContext(&running->context));
    if (!running->plugin) throw std::runtime_error("attachToContext() gave nothing");
    running->runtime = &capability<IPluginV3OneRuntime>(*running->plugin, PluginCapabilityType::kRUNTIME, "kRUNTIME");
    return std::unique_ptr<Running>(std::move(running));
  }
  std::vector<int32_t> tactics(Descs const& in, Descs const& out) override {
    configure(dynamic(in), dynamic(out));
    std::vector<int32_t> tactics(static_cast<size_t>(std::max(0, build_.getNbTactics())));
    if (!tactics.empty())
      check("getValidTactics()", build_.getValidTactics(tactics.data(), static_cast<int32_t>(tactics.size())));
    return tactics;
  }

 private:
  void configure(std::vector<DynamicPluginTensorDesc> const& in, std::vector<DynamicPluginTensorDesc> const& out) {
    check("configurePlugin()", build_.configurePlugin(in.data(), static_cast<int32_t>(in.size()), out.data(),
                                                      static_cast<int32_t>(out.size())));
  }
  static void check(char const* what, int32_t status) {
    if (status != 0) throw std::runtime_error(std::string(what) + " gave " + std::to_string(status));
  }
  struct Context : IPluginResourceContext {
    IGpuAllocator* getGpuAllocator() const noexcept override { return nullptr; }
    IErrorRecorder* getErrorRecorder() const noexcept override { return nullptr; }
  };
  struct RunningV3 : Running {
    void take_tactic(int32_t tactic) override { check("setTactic()", runtime->setTactic(tactic)); }
    void shape(Descs const& in, Descs const& out) override {
      check("onShapeChange()", runtime->onShapeChange(in.data(), count_of(in), out.data(), count_of(out)));
    }
    int32_t enqueue(Descs const& in, Descs const& out, void const* const* inputs, void* const* outputs, void* workspace,
                    cudaStream_t stream) override {
      return runtime->enqueue(in.data(), out.data(), inputs, outputs, workspace, stream);
    }
    Context context;
    std::unique_ptr<IPluginV3> plugin;
    IPluginV3OneRuntime* runtime = nullptr;
  };

  std::unique_ptr<IPluginV3> plugin_;
  IPluginV3OneBuild& build_;
  IPluginV3OneRuntime& runtime_;
};

}  // namespace CAMSHAFT_TENSORRT_OWN
}  // namespace nvinfer1
