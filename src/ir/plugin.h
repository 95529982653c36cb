// Operators that others bring: what the compiler knows of one, and the table of those that are loaded. Who brings them,
// and how, is a matter of src/plugin/.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/cancellation.h"
#include "ir/op.h"

namespace camshaft {

class ThreadPool;

/// An attribute of an ONNX node: integers, numbers and texts are lists, of one element where it is a `single` value.
struct PluginAttribute {
  std::string name;
  std::variant<std::vector<int64_t>, std::vector<double>, std::vector<std::string>, Tensor> value;
  bool single = false;
};
/// As a text that engines store, and back; decode throws Error(invalid_argument) for another text.
std::string encode(const PluginAttribute& attribute);
PluginAttribute decode_attribute(std::string_view text);

/// What an instance is made of.
struct PluginNode {
  std::vector<PluginAttribute> attributes;
  /// What the instance of before gave as its state, where this one is of an engine; null: of a model.
  const std::string* state = nullptr;
};

/// An operand of a run; `data` is null while only sizes are asked, and `present` false for one that is left out.
struct PluginOperand {
  DType dtype = DType::f32;
  Dims dims;
  std::byte* data = nullptr;
  bool present = true;
};

/// A launch of a kernel: so many blocks of so many threads, with so much dynamic shared memory.
struct PluginGrid {
  unsigned blocks[3] = {1, 1, 1};
  unsigned threads[3] = {1, 1, 1};
  unsigned shared_bytes = 0;
};

/// A GPU that a plugin puts its work into; operands are in its memory.
struct PluginDevice {
  int ordinal = 0;         ///< its number in this process
  void* stream = nullptr;  ///< a CUstream, whose context is current; null while only sizes are asked
  int capability = 0;      ///< 90 for 9.0
  int multiprocessors = 0;
  /// Puts a kernel of the instance's device_text() or device_module() into the stream. Throws Error.
  std::function<void(const std::string& kernel, const PluginGrid& grid, void* const* arguments)> launch = {};
  /// Copies within the device's memory, in the stream's order. Throws Error.
  std::function<void(std::byte* to, std::span<const std::byte> from)> copy = {};
  /// The bytes of each of a kernel's parameters; null where nobody knows. Throws Error.
  std::function<const std::vector<size_t>*(const std::string& kernel)> parameters = {};
};

struct PluginCall {
  std::span<const PluginOperand> inputs, outputs;
  size_t tactic = 0;
  std::byte* workspace = nullptr;  ///< aligned to 64 bytes
  ThreadPool* pool = nullptr;      ///< null while only sizes are asked
  const Cancellation* cancellation = nullptr;
  /// Memory for an output whose size only running tells; null: there is none such.
  std::function<std::byte*(size_t output, Dims dims)> resize = {};
  const PluginDevice* device = nullptr;  ///< null: it runs on the host
};

/// An operator as one node has it. Safe to use from several threads. All functions throw Error(invalid_argument) that
/// names the operator and says what it said; running also throws Error(cancelled).
class PluginInstance {
 public:
  virtual ~PluginInstance() = default;
  virtual std::vector<TensorType> infer(const InferContext& context) const = 0;
  /// To be stored in engines.
  virtual std::string state() const { return {}; }
  /// How many ways there are to run such operands; of these those that it supports.
  virtual size_t tactics(const PluginCall&) const { return 1; }
  virtual bool supports(const PluginCall&) const { return true; }
  /// Expected time on one thread; negative: not known.
  virtual double seconds(const PluginCall&) const { return -1; }
  virtual size_t workspace_bytes(const PluginCall&) const { return 0; }
  virtual bool has_reference() const { return false; }
  /// Whether it runs on the host, and on a GPU.
  virtual bool has_host() const { return true; }
  virtual bool has_device() const { return false; }
  /// CUDA C++ of the kernels that a tactic's run_on_device() launches by name; empty: it has kernels of its own.
  virtual std::string device_text(size_t /*tactic*/) const { return {}; }
  /// The same kernels as a cubin, a fat binary or PTX; empty: there is only the text.
  virtual std::span<const std::byte> device_module(size_t /*tactic*/) const { return {}; }
  /// Whether run_on_device() always puts the same work into the stream for the same operands, so that what is recorded
  /// may be repeated without it.
  virtual bool is_recorded() const { return true; }
  virtual void run_on_device(const PluginCall&) const {}
  virtual void run(const PluginCall& call) const = 0;
  virtual void run_reference(const PluginCall& call) const { run(call); }
};

/// The order of the axes in which an operator takes an operand, or gives a result.
enum class PluginLayout : uint8_t {
  channels_first,  ///< as in the model
  channels_last,   ///< axis 1 behind the others, where there are three or more
};

class PluginOperator {
 public:
  virtual ~PluginOperator() = default;
  std::string domain, name, version;
  std::string file;  ///< what it came from, for messages: a file's name
  std::string hash;  ///< of the code behind it
  /// Types that operand i may have, as bits 1 << dtype, the last one for further operands; none: any.
  std::vector<uint64_t> types;
  /// Likewise of operands and results; none: as in the model. Importers bring operands into these orders, and results
  /// back: an ops::Plugin knows nothing of them.
  std::vector<PluginLayout> input_layouts, output_layouts;
  virtual std::shared_ptr<const PluginInstance> create(const PluginNode& node) const = 0;
  /// "example::Gelu"
  std::string full_name() const { return domain.empty() ? name : domain + "::" + name; }
};

/// Null when none is loaded. The default domain is "".
std::shared_ptr<const PluginOperator> find_plugin(std::string_view domain, std::string_view name);
/// By full_name().
std::shared_ptr<const PluginOperator> find_plugin(std::string_view full_name);
/// The one that an engine was built with, also where it is withdrawn.
std::shared_ptr<const PluginOperator> find_plugin(std::string_view full_name, std::string_view version,
                                                  std::string_view hash);
/// All that are loaded, by their full names.
std::vector<std::shared_ptr<const PluginOperator>> loaded_plugins();
/// Loads it for the whole process. One that is there already stays; Error(invalid_argument) where that has another
/// version or hash.
void add_plugin(std::shared_ptr<const PluginOperator> plugin);
/// Models do not mean it any more, and another one may be loaded in its place; engines still have it. False where none
/// of that name is loaded.
bool withdraw_plugin(std::string_view full_name);

/// Thrown where a graph, as of an engine, names an operator that is not loaded, or is another one now. Its code is
/// ErrorCode::unsupported.
class MissingPlugin : public Error {
 public:
  explicit MissingPlugin(const std::string& message) : Error(ErrorCode::unsupported, message) {}
};

/// A plugin is wrong, whatever it is given: it wrote where it must not, or its shape rule does not say what it does.
/// Its code is ErrorCode::invalid_argument.
class PluginViolation : public Error {
 public:
  explicit PluginViolation(const std::string& message) : Error(ErrorCode::invalid_argument, message) {}
};

}  // namespace camshaft
