// A node's plugin, made by its creator, as an instance of Camshaft's interface for plugins, camshaft_plugin.h.
#pragma once

#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "camshaft/tensorrt/detail/fixed_instance.h"
#include "camshaft/tensorrt/detail/formats.h"
#include "camshaft/tensorrt/detail/registry.h"

namespace nvinfer1 {
namespace camshaft_detail CAMSHAFT_TENSORRT_OWN {

/// Domain of the operators that creators stand for; behind a point comes their namespace.
constexpr char const* domain = "tensorrt";
/// Which inputs are shapes, as TensorRT's parser has it of a node.
constexpr char const* shape_inputs_attribute = "tensorrt_plugin_shape_input_indices";
/// How camshaft.tensorrt says of a network's layer what its plugin was made of: serialised, or by its fields.
constexpr char const* stored_attribute = "camshaft_stored";
constexpr char const* fields_attribute = "camshaft_fields";

struct TypePair {
  camshaft_dtype dtype;
  DataType type;
};
constexpr TypePair type_pairs[] = {{CAMSHAFT_F32, DataType::kFLOAT}, {CAMSHAFT_F16, DataType::kHALF},
                                   {CAMSHAFT_I8, DataType::kINT8},   {CAMSHAFT_I32, DataType::kINT32},
                                   {CAMSHAFT_BOOL, DataType::kBOOL}, {CAMSHAFT_U8, DataType::kUINT8},
                                   {CAMSHAFT_BF16, DataType::kBF16}, {CAMSHAFT_I64, DataType::kINT64},
                                   {CAMSHAFT_I4, DataType::kINT4},   {CAMSHAFT_F8E4M3, DataType::kFP8}};
inline DataType type_of(camshaft_dtype dtype, size_t input) {
  for (TypePair const& pair : type_pairs)
    if (pair.dtype == dtype) return pair.type;
  if (dtype < 0) throw std::runtime_error("input " + std::to_string(input) + " is left out, which plugins cannot have");
  throw std::runtime_error("input " + std::to_string(input) + " has an element type that TensorRT has not");
}
inline camshaft_dtype dtype_of(DataType type) {
  for (TypePair const& pair : type_pairs)
    if (pair.type == type) return pair.dtype;
  throw std::runtime_error("an output has an element type that plugins cannot give");
}
inline std::string text_of(DataType type) {
  static constexpr char const* names[] = {"kFLOAT", "kHALF", "kINT8",  "kINT32", "kBOOL", "kUINT8",
                                          "kFP8",   "kBF16", "kINT64", "kINT4",  "kFP4",  "kE8M0"};
  return names[static_cast<int32_t>(type)];
}
inline size_t bytes_of(DataType type, Dims const& dims) {
  static constexpr size_t bits[] = {32, 16, 8, 32, 8, 8, 8, 16, 64, 4, 4, 8};
  size_t count = 1;
  for (int32_t axis = 0; axis < dims.nbDims; ++axis) count *= static_cast<size_t>(dims.d[axis]);
  return (count * bits[static_cast<int32_t>(type)] + 7) / 8;
}

/// A node's plugin, and clones of it that run.
class Operator {
 public:
  Operator(std::unique_ptr<Plugin> plugin, std::vector<int64_t> shape_inputs)
      : plugin_(std::move(plugin)), shape_inputs_(std::move(shape_inputs)), state_(plugin_->stored()) {}

  std::string const& state() const { return state_; }

  void infer(camshaft_plugin_shapes* shapes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    IExprBuilder builder(shapes);
    Descs descs;
    std::vector<DataType> types;
    std::vector<DimsExprs> dims, known;
    for (size_t i = 0; i < shapes->input_count; ++i) {
      types.push_back(type_of(shapes->dtype(shapes, i), i));
      DimsExprs exprs{rank_of(shapes->rank(shapes, i)), {}};
      for (int32_t axis = 0; axis < exprs.nbDims; ++axis)
        exprs.d[axis] = builder.keep(shapes->dim(shapes, i, static_cast<size_t>(axis)));
      descs.push_back(described(types.back(), exprs));
      if (!is_shape(i)) {
        dims.push_back(exprs);
        continue;
      }
      int64_t const* values = nullptr;
      const size_t count = shapes->values(shapes, i, &values);
      if (count == 0) throw std::runtime_error("input " + std::to_string(i) + ", a shape, is not known before running");
      known.push_back({rank_of(count), {}});
      for (size_t v = 0; v < count; ++v) known.back().d[v] = builder.constant(values[v]);
    }
    const Results results = asked(types, dims, known, builder, shapes->output_count);
    for (size_t o = 0; o < results.dims.size(); ++o) descs.push_back(described(results.types[o], results.dims[o]));
    for (DimsExprs const& exprs : results.dims)
      for (int32_t axis = 0; axis < exprs.nbDims; ++axis)
        if (exprs.d[axis]->isSizeTensor()) late_.insert(types_and_ranks(descs, types.size()));
    formats_of(descs, types.size());
    for (size_t o = 0; o < results.dims.size(); ++o) {
      std::vector<camshaft_plugin_dim const*> sizes;
      for (int32_t axis = 0; axis < results.dims[o].nbDims; ++axis) {
        IDimensionExpr const* expr = results.dims[o].d[axis];
        sizes.push_back(expr->isSizeTensor() ? shapes->symbol(shapes, o, static_cast<size_t>(axis)) : expr->dim());
      }
      shapes->set_output(shapes, o, dtype_of(results.types[o]), sizes.size(), sizes.data());
    }
  }

  size_t workspace(camshaft_plugin_run const* run) {
    const std::lock_guard<std::mutex> lock(mutex_);
    // With results whose sizes only running tells it is known, and taken, when numbers are at hand.
    const Call call = call_of(*run);
    if (call.is_late) return 0;
    const size_t own = plugin_->workspace(call.in, call.out), copies = Packed(call.in, call.out).bytes();
    return copies == 0 ? own : own + copies + 2 * Packed::alignment;
  }

  size_t count_tactics(camshaft_plugin_run const* run) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const Call call = call_of(*run);
    return plugin_->tactics(call.in, call.out).size();
  }

  void run(camshaft_plugin_run const* run) {
    Call call = [&] {
      const std::lock_guard<std::mutex> lock(mutex_);
      return call_of(*run);
    }();
    const auto stream = static_cast<cudaStream_t>(run->cuda ? run->cuda->stream : nullptr);
    std::vector<std::vector<char>> late(call.out.size());
    std::vector<char> own_workspace;
    Results results;
    IExprBuilder builder(nullptr);
    void* workspace = run->workspace;
    if (call.is_late) {
      const std::lock_guard<std::mutex> lock(mutex_);
      results = results_of(call, *run, builder);
      for (size_t o = 0; o < call.out.size(); ++o) {
        if (run->outputs[o]->data) continue;
        call.out[o] = described(results.types[o], results.dims[o]);
        for (int32_t axis = 0; axis < results.dims[o].nbDims; ++axis)
          if (results.dims[o].d[axis]->isSizeTensor())
            call.out[o].dims.d[axis] = results.dims[o].d[axis]->upper()->getConstantValue();
        late[o].resize(bytes_of(call.out[o].type, call.out[o].dims) + 1);
        call.outputs[o] = late[o].data();
      }
      own_workspace.resize(plugin_->workspace(call.in, call.out) + 256);
      workspace = aligned(own_workspace.data());
    }
    Packed packed(call.in, call.out);
    const size_t copies = packed.bytes();
    if (copies > 0) {  // they lie at the front of the workspace
      char* const scratch = aligned(workspace);
      packed.enter(*run, scratch, call.inputs, call.outputs);
      workspace = scratch + copies;
    }
    Clone clone = take(stream, run->tactic, call);
    if (!same(clone.in, call.in) || !same(clone.out, call.out)) {
      clone.in.clear();
      clone.running->take_tactic(number_of(run->tactic, call));
      clone.running->shape(call.in, call.out);
      clone.in = call.in;
      clone.out = call.out;
    }
    const int32_t status =
        clone.running->enqueue(call.in, call.out, call.inputs.data(), call.outputs.data(), workspace, stream);
    give_back(stream, std::move(clone));
    if (status != 0) throw std::runtime_error("enqueue() gave " + std::to_string(status));
    if (copies > 0) packed.leave(*run, call.outputs);
    for (size_t o = 0; o < late.size(); ++o)
      if (!late[o].empty()) give_late(*run, call, results, o, late[o]);
  }

 private:
  struct Clone {
    std::unique_ptr<Running> running;
    size_t tactic;
    Descs in, out;  // of the run before
  };

  /// The operands of a run.
  struct Call {
    Descs in, out;
    std::vector<void const*> inputs;
    std::vector<void*> outputs;
    bool is_late = false;  // there is a result whose size only running tells
    explicit Call(camshaft_plugin_run const& run) {
      for (size_t i = 0; i < run.input_count; ++i) {
        if (!run.inputs[i]) throw std::runtime_error("an input is left out, which plugins cannot have");
        in.push_back(described(*run.inputs[i], i));
        inputs.push_back(run.inputs[i]->data);
      }
      for (size_t o = 0; o < run.output_count; ++o) {
        out.push_back(described(*run.outputs[o], o));
        outputs.push_back(run.outputs[o]->data);
      }
    }
    static PluginTensorDesc described(camshaft_plugin_tensor const& tensor, size_t index) {
      Dims dims{rank_of(tensor.rank), {}};
      for (int32_t axis = 0; axis < dims.nbDims; ++axis) dims.d[axis] = size_of(tensor.dims[axis]);
      return {dims, type_of(tensor.dtype, index), TensorFormat::kLINEAR, 1.0F};
    }
  };

  static char* aligned(void* data) {
    const auto address = reinterpret_cast<uintptr_t>(data);
    return static_cast<char*>(data) + (Packed::alignment - address % Packed::alignment) % Packed::alignment;
  }

  /// Those that the plugin takes such tensors in. Equal nodes of a model share this instance: what is kept depends on
  /// types and sizes alone, not on who asked last.
  std::vector<TensorFormat> const& formats_of(Descs descs, size_t input_count) {
    std::vector<int64_t> key;
    for (PluginTensorDesc const& desc : descs) {
      key.insert(key.end(), {static_cast<int64_t>(desc.type), desc.dims.nbDims});
      key.insert(key.end(), desc.dims.d, desc.dims.d + desc.dims.nbDims);
    }
    const auto found = formats_.find(key);
    if (found != formats_.end()) return found->second;
    const auto inputs = static_cast<int32_t>(input_count);
    const bool is_late = late_.count(types_and_ranks(descs, input_count)) != 0;
    int32_t questions = 0;
    const int32_t place = choose_formats(*plugin_, descs, inputs, is_late, 0, questions);
    if (place < count_of(descs))
      throw std::runtime_error(
          "the plugin does not take " + text_of(descs[static_cast<size_t>(place)].type) +
          (is_late ? " in kLINEAR" : " in any format") + " as " + (place < inputs ? "input " : "output ") +
          std::to_string(place < inputs ? place : place - inputs) + taken_instead(descs, inputs, place));
    constexpr size_t most_sizes = 256;
    if (formats_.size() >= most_sizes) formats_.clear();  // what is needed is asked again, with the same answer
    std::vector<TensorFormat>& formats = formats_[key];
    for (PluginTensorDesc const& desc : descs) formats.push_back(desc.format);
    return formats;
  }
  /// What the way out is, if there is one: nothing is cast for a plugin, whose results may have the type of an input.
  std::string taken_instead(Descs descs, int32_t inputs, int32_t place) {
    std::string names;
    PluginTensorDesc& desc = descs[static_cast<size_t>(place)];
    desc.format = TensorFormat::kLINEAR;
    for (TypePair const& pair : type_pairs) {
      desc.type = pair.type;
      if (plugin_->supports(place, descs, inputs)) names += (names.empty() ? "" : ", ") + text_of(pair.type);
    }
    return names.empty() ? "" : ", but " + names + ": cast it to that in the model";
  }
  static std::vector<int32_t> types_and_ranks(Descs const& descs, size_t count) {
    std::vector<int32_t> key;
    for (size_t i = 0; i < count; ++i)
      key.insert(key.end(), {static_cast<int32_t>(descs[i].type), descs[i].dims.nbDims});
    return key;
  }
  Call call_of(camshaft_plugin_run const& run) {
    Call call(run);
    call.is_late = late_.count(types_and_ranks(call.in, call.in.size())) != 0;
    if (call.is_late) return call;  // all are row-major, and sizes of results not known yet
    Descs all = call.in;
    all.insert(all.end(), call.out.begin(), call.out.end());
    std::vector<TensorFormat> const& formats = formats_of(all, call.in.size());
    for (size_t i = 0; i < all.size(); ++i)
      (i < call.in.size() ? call.in[i] : call.out[i - call.in.size()]).format = formats[i];
    return call;
  }

  /// As wide as the sizes are for which the plugin is compiled.
  static DimsSize size_of(int64_t size) {
    const auto narrow = static_cast<DimsSize>(size);
    if (narrow != size)
      throw std::runtime_error("a size of " + std::to_string(size) + " does not fit into 32 bits, which TensorRT " +
                               std::to_string(NV_TENSORRT_MAJOR) +
                               " has for sizes: compile the plugin with -DNV_TENSORRT_MAJOR=10");
    return narrow;
  }
  static int32_t rank_of(size_t rank) {
    if (rank > static_cast<size_t>(Dims::MAX_DIMS)) throw std::runtime_error("tensors of plugins have 8 axes at most");
    return static_cast<int32_t>(rank);
  }
  static PluginTensorDesc described(DataType type, DimsExprs const& exprs) {
    Dims dims{exprs.nbDims, {}};
    for (int32_t axis = 0; axis < exprs.nbDims; ++axis)
      dims.d[axis] = exprs.d[axis]->isConstant() ? size_of(exprs.d[axis]->getConstantValue()) : -1;
    return {dims, type, TensorFormat::kLINEAR, 1.0F};
  }
  static bool same(Descs const& a, Descs const& b) {
    if (a.size() != b.size() || a.empty()) return false;
    for (size_t i = 0; i < a.size(); ++i) {
      if (a[i].type != b[i].type || a[i].dims.nbDims != b[i].dims.nbDims) return false;
      for (int32_t axis = 0; axis < a[i].dims.nbDims; ++axis)
        if (a[i].dims.d[axis] != b[i].dims.d[axis]) return false;
    }
    return true;
  }
  bool is_shape(size_t input) const {
    for (const int64_t index : shape_inputs_)
      if (index == static_cast<int64_t>(input)) return true;
    return false;
  }

  Results asked(std::vector<DataType> const& types, std::vector<DimsExprs> const& dims,
                std::vector<DimsExprs> const& shapes, IExprBuilder& builder, size_t outputs) {
    if (plugin_->outputs() != static_cast<int32_t>(outputs))
      throw std::runtime_error("the plugin has " + std::to_string(plugin_->outputs()) + " outputs, the node " +
                               std::to_string(outputs));
    Results results = plugin_->results(types, dims, shapes, builder, static_cast<int32_t>(outputs));
    if (!builder.failure().empty()) throw std::runtime_error(builder.failure());
    for (DimsExprs const& exprs : results.dims) {
      if (exprs.nbDims < 0 || exprs.nbDims > Dims::MAX_DIMS) throw std::runtime_error("a result has no possible rank");
      for (int32_t axis = 0; axis < exprs.nbDims; ++axis)
        if (!exprs.d[axis]) throw std::runtime_error("a result has no size along axis " + std::to_string(axis));
    }
    return results;
  }

  /// With the numbers of a run.
  Results results_of(Call const& call, camshaft_plugin_run const& run, IExprBuilder& builder) {
    std::vector<DataType> types;
    std::vector<DimsExprs> dims, known;
    for (size_t i = 0; i < call.in.size(); ++i) {
      types.push_back(call.in[i].type);
      if (is_shape(i)) {
        known.push_back(values_of(call.in[i], call.inputs[i], builder));
        continue;
      }
      dims.push_back({call.in[i].dims.nbDims, {}});
      for (int32_t axis = 0; axis < call.in[i].dims.nbDims; ++axis)
        dims.back().d[axis] = builder.constant(call.in[i].dims.d[axis]);
    }
    return asked(types, dims, known, builder, run.output_count);
  }
  static DimsExprs values_of(PluginTensorDesc const& desc, void const* data, IExprBuilder& builder) {
    DimsExprs exprs{rank_of(desc.dims.nbDims == 0 ? 1 : static_cast<size_t>(desc.dims.d[0])), {}};
    for (int32_t v = 0; v < exprs.nbDims; ++v) exprs.d[v] = builder.constant(integer(desc.type, data, v));
    return exprs;
  }
  static int64_t integer(DataType type, void const* data, int32_t index) {
    return type == DataType::kINT32 ? static_cast<int32_t const*>(data)[index]
                                    : static_cast<int64_t const*>(data)[index];
  }

  /// As large as the plugin said it is.
  static void give_late(camshaft_plugin_run const& run, Call const& call, Results const& results, size_t o,
                        std::vector<char> const& from) {
    Dims dims = call.out[o].dims;
    for (int32_t axis = 0; axis < dims.nbDims; ++axis) {
      IDimensionExpr const* expr = results.dims[o].d[axis];
      if (!expr->isSizeTensor()) continue;
      const auto teller = static_cast<size_t>(expr->size_output());
      const int64_t size = integer(call.out.at(teller).type, call.outputs[teller], 0);
      if (size < 0 || size > dims.d[axis])
        throw std::runtime_error("output " + std::to_string(teller) + " says " + std::to_string(size) +
                                 ", which is not from 0 to " + std::to_string(dims.d[axis]));
      dims.d[axis] = size_of(size);
    }
    const std::vector<int64_t> sizes(dims.d, dims.d + dims.nbDims);
    void* const to = run.resize_output(&run, o, sizes.size(), sizes.data());
    if (!to) throw std::runtime_error("output " + std::to_string(o) + " cannot have the shape that it is to get");
    std::memcpy(to, from.data(), bytes_of(call.out[o].type, dims));
  }

  /// A clone that nobody uses, with that tactic, and of these shapes where there is one: equal nodes of a model share
  /// this instance. Those of one stream are of that stream alone, as its work goes on after the call.
  Clone take(cudaStream_t stream, size_t tactic, Call const& call) {
    constexpr size_t most_shapes = 4;
    const std::lock_guard<std::mutex> lock(mutex_);
    auto& idle = idle_[stream];
    const auto taken = [&](size_t i) {
      Clone clone = std::move(idle[i]);
      idle.erase(idle.begin() + static_cast<std::ptrdiff_t>(i));
      return clone;
    };
    size_t of_tactic = 0, oldest = 0;
    for (size_t i = 0; i < idle.size(); ++i) {
      if (idle[i].tactic != tactic) continue;
      if (same(idle[i].in, call.in) && same(idle[i].out, call.out)) return taken(i);
      if (of_tactic++ == 0) oldest = i;
    }
    if (of_tactic == most_shapes) return taken(oldest);
    return {plugin_->clone(), tactic, {}, {}};
  }
  void give_back(cudaStream_t stream, Clone clone) {
    const std::lock_guard<std::mutex> lock(mutex_);
    idle_[stream].push_back(std::move(clone));
  }

  /// The plugin's own number of a tactic, which may be another one for other shapes; 0 of a plugin without any.
  int32_t number_of(size_t tactic, Call const& call) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const std::vector<int32_t> tactics = plugin_->tactics(call.in, call.out);
    if (tactic > 0 && tactic >= tactics.size())
      throw std::runtime_error("tactic " + std::to_string(tactic) + " was chosen, and the plugin has " +
                               std::to_string(tactics.size()) + " now");
    return tactics.empty() ? 0 : tactics[tactic];
  }

  std::mutex mutex_;
  std::unique_ptr<Plugin> plugin_;
  std::vector<int64_t> shape_inputs_;
  std::string state_;
  std::map<cudaStream_t, std::vector<Clone>> idle_;
  std::map<std::vector<int64_t>, std::vector<TensorFormat>> formats_;  // of inputs and outputs, by types and sizes
  std::set<std::vector<int32_t>> late_;  // types and ranks of inputs of which only running tells sizes of results
};

template <class Context, class Work>
int32_t guarded(Context* context, Work const& work) noexcept {
  try {
    work();
    return 0;
  } catch (std::exception const& e) {
    return context->fail(context, e.what()), 1;
  } catch (...) {
    return context->fail(context, "it threw something that is no std::exception"), 1;
  }
}

inline std::unique_ptr<Plugin> wrapped(IPluginV2* made, char const* maker) {
  if (!made) throw std::runtime_error(std::string(maker) + " gave nothing");
  if (IPluginV2DynamicExt* dynamic = made->camshaftDynamic()) return std::unique_ptr<Plugin>(new PluginV2(dynamic));
  return std::unique_ptr<Plugin>(new FixedPlugin(made));
}

/// A creator's plugin with these fields.
inline std::unique_ptr<Plugin> created(Registered const& of, char const* name, PluginFieldCollection const* fields,
                                       TensorRTPhase phase) {
  IPluginCreatorV3One* v3 = of.creator->camshaftV3();
  if (!v3) return wrapped(of.creator->camshaftV1()->createPlugin(name, fields), "createPlugin()");
  IPluginV3* made = v3->createPlugin(name, fields, phase);
  if (!made) throw std::runtime_error("createPlugin() gave nothing");
  return std::unique_ptr<Plugin>(new PluginV3(made));
}

/// Of what stored() gave of another one.
inline std::unique_ptr<Plugin> restored(Registered const& of, char const* name, void const* data, size_t size) {
  if (IPluginCreator* v1 = of.creator->camshaftV1())
    return wrapped(v1->deserializePlugin(name, data, size), "deserializePlugin()");
  Fields fields;
  fields.read(static_cast<char const*>(data), size);
  return created(of, name, fields.get(), TensorRTPhase::kRUNTIME);
}

/// Bytes that camshaft.tensorrt gave a node as an attribute, two hexadecimal digits each; false where it has none.
inline bool read_hex(camshaft_plugin_node const* node, char const* attribute, std::string& bytes) {
  if (node->attribute_kind(node, attribute) != CAMSHAFT_PLUGIN_TEXTS) return false;
  char const* digits = nullptr;
  size_t length = 0;
  node->texts(node, attribute, 0, &digits, &length);
  const auto value = [](char digit) { return digit <= '9' ? digit - '0' : digit - 'a' + 10; };
  for (size_t i = 0; i + 1 < length; i += 2) bytes += static_cast<char>(value(digits[i]) * 16 + value(digits[i + 1]));
  return true;
}

/// A creator's plugin of a node, or of what an engine stored of one.
inline std::unique_ptr<Plugin> made_by(Registered const& of, camshaft_plugin_node const* node) {
  char const* const name = of.name.c_str();
  if (node->state) return restored(of, name, node->state, node->state_bytes);
  Fields fields;
  std::string bytes;
  if (read_hex(node, stored_attribute, bytes)) return restored(of, name, bytes.data(), bytes.size());
  if (read_hex(node, fields_attribute, bytes)) {
    fields.read(bytes.data(), bytes.size());
  } else {
    IPluginCreatorV3One* v3 = of.creator->camshaftV3();
    fields.read(node, v3 ? v3->getFieldNames() : of.creator->camshaftV1()->getFieldNames());
  }
  return created(of, name, fields.get(), TensorRTPhase::kBUILD);
}

}  // namespace CAMSHAFT_TENSORRT_OWN
}  // namespace nvinfer1
