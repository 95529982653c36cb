// A plugin of a node whose sizes are numbers: IPluginV2, IPluginV2Ext or IPluginV2IOExt.
#pragma once

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "camshaft/tensorrt/detail/instance.h"

namespace nvinfer1 {
namespace camshaft_detail CAMSHAFT_TENSORRT_OWN {

class FixedPlugin : public Plugin {
 public:
  explicit FixedPlugin(IPluginV2* plugin) : plugin_(plugin) {}
  ~FixedPlugin() override { plugin_->destroy(); }

  std::string stored() override { return serialized(*plugin_); }
  int32_t outputs() override { return plugin_->getNbOutputs(); }
  Results results(std::vector<DataType> const& types, std::vector<DimsExprs> const& dims,
                  std::vector<DimsExprs> const& shapes, IExprBuilder& builder, int32_t outputs) override {
    if (!shapes.empty()) throw std::runtime_error("a plugin for fixed sizes has no shape inputs");
    std::vector<Dims> known;
    for (DimsExprs const& exprs : dims) {
      known.push_back({exprs.nbDims, {}});
      for (int32_t axis = 0; axis < exprs.nbDims; ++axis) {
        if (!exprs.d[axis]->isConstant())
          throw std::runtime_error("the plugin is for fixed sizes (no IPluginV2DynamicExt), and axis " +
                                   std::to_string(axis) + " of input " + std::to_string(known.size() - 1) +
                                   " is open: give the model's inputs fixed sizes");
        known.back().d[axis] = exprs.d[axis]->getConstantValue();
      }
    }
    Results results;
    const auto inputs = static_cast<int32_t>(types.size());
    IPluginV2Ext* ext = plugin_->camshaftExt();
    for (int32_t o = 0; o < outputs; ++o) {
      results.types.push_back(ext             ? ext->getOutputDataType(o, types.data(), inputs)
                              : types.empty() ? DataType::kFLOAT
                                              : types[0]);
      Dims made = plugin_->getOutputDimensions(o, known.data(), inputs);
      if (made.nbDims < 0 || made.nbDims > Dims::MAX_DIMS) throw std::runtime_error("a result has no possible rank");
      results.dims.push_back({made.nbDims, {}});
      if (std::any_of(made.d, made.d + made.nbDims, [](DimsSize size) { return size < 0; }))
        throw std::runtime_error("a result has a negative size");
      for (int32_t axis = 0; axis < made.nbDims; ++axis) results.dims.back().d[axis] = builder.constant(made.d[axis]);
    }
    return results;
  }
  bool supports(int32_t place, Descs const& all, int32_t inputs) override {
    if (IPluginV2IOExt* io = plugin_->camshaftIO())
      return io->supportsFormatCombination(place, all.data(), inputs, count_of(all) - inputs);
    // TensorRT asks these for the types that computing may be in, and takes indices as they are.
    PluginTensorDesc const& desc = all[static_cast<size_t>(place)];
    const bool is_computed =
        desc.type == DataType::kFLOAT || desc.type == DataType::kHALF || desc.type == DataType::kINT8;
    // One format is for all of these: that of the first one.
    if (!is_computed) return desc.format == TensorFormat::kLINEAR;
    return desc.format == format_of(all) && plugin_->supportsFormat(desc.type, desc.format);
  }
  size_t workspace(Descs const& in, Descs const& out) override {
    configure(*plugin_, in, out);
    return plugin_->getWorkspaceSize(1);
  }
  std::unique_ptr<Running> clone() override {
    IPluginV2* made = plugin_->clone();
    if (!made) throw std::runtime_error("clone() gave nothing");
    std::unique_ptr<RunningFixed> running(new RunningFixed(made));
    if (IPluginV2Ext* ext = made->camshaftExt()) ext->attachToContext(nullptr, nullptr, nullptr);
    return std::unique_ptr<Running>(std::move(running));
  }

 private:
  /// kLINEAR where none is of a type that computing may be in.
  static TensorFormat format_of(Descs const& descs) {
    for (PluginTensorDesc const& desc : descs)
      if (desc.type == DataType::kFLOAT || desc.type == DataType::kHALF || desc.type == DataType::kINT8)
        return desc.format;
    return TensorFormat::kLINEAR;
  }
  static void configure(IPluginV2& plugin, Descs const& in, Descs const& out) {
    if (IPluginV2IOExt* io = plugin.camshaftIO())
      return io->configurePlugin(in.data(), count_of(in), out.data(), count_of(out));
    std::vector<Dims> dims, out_dims;
    std::vector<DataType> types, out_types;
    for (PluginTensorDesc const& desc : in) dims.push_back(desc.dims), types.push_back(desc.type);
    for (PluginTensorDesc const& desc : out) out_dims.push_back(desc.dims), out_types.push_back(desc.type);
    IPluginV2Ext* ext = plugin.camshaftExt();
    if (!ext)
      return plugin.configureWithFormat(dims.data(), count_of(in), out_dims.data(), count_of(out),
                                        types.empty() ? DataType::kFLOAT : types[0], format_of(in), 1);
    const std::unique_ptr<bool[]> broadcast(new bool[in.size() + out.size() + 1]());
    ext->configurePlugin(dims.data(), count_of(in), out_dims.data(), count_of(out), types.data(), out_types.data(),
                         broadcast.get(), broadcast.get() + in.size(), format_of(in), 1);
  }
  struct RunningFixed : Running {
    explicit RunningFixed(IPluginV2* made) : plugin(made) {}
    ~RunningFixed() override {
      if (initialized) plugin->terminate();
      if (IPluginV2Ext* ext = plugin->camshaftExt()) ext->detachFromContext();
      plugin->destroy();
    }
    void shape(Descs const& in, Descs const& out) override {
      configure(*plugin, in, out);
      if (initialized) return;
      const int32_t status = plugin->initialize();
      if (status != 0) throw std::runtime_error("initialize() gave " + std::to_string(status));
      initialized = true;
    }
    int32_t enqueue(Descs const&, Descs const&, void const* const* inputs, void* const* outputs, void* workspace,
                    cudaStream_t stream) override {
      return plugin->enqueue(1, inputs, outputs, workspace, stream);
    }
    IPluginV2* plugin;
    bool initialized = false;
  };

  IPluginV2* plugin_;
};

}  // namespace CAMSHAFT_TENSORRT_OWN
}  // namespace nvinfer1
