// What libraries of custom operators see as pointers alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "ir/plugin.h"
#include "plugin/ort/abi.h"
#include "plugin/ort/node_facts.h"

namespace camshaft::ort {

struct Status {
  int32_t code = failed;
  std::string message;
};

struct MemoryInfo {
  std::string name = "Cpu";
  int32_t allocator_type = 0, id = 0, memory_type = 0;
  bool operator==(const MemoryInfo&) const = default;
};

/// OrtTensorTypeAndShapeInfo. Open sizes are -1, and may have a name.
struct TensorInfo {
  ElementType type = undefined_element;
  std::vector<int64_t> dims;
  std::vector<std::string> symbols;  ///< as long as dims; "" for numbers and sizes without a name
  bool has_shape = true;

  TensorInfo() = default;
  TensorInfo(ElementType element, std::vector<int64_t> sizes);
  explicit TensorInfo(const OperandFacts& operand);
};

struct TypeInfo {
  TensorInfo tensor;
};

/// A tensor: a view of an operand, or with memory of its own.
struct Value {
  DType dtype = DType::f32;
  Dims dims;
  std::byte* data = nullptr;
  std::shared_ptr<std::byte[]> memory = {};
  size_t bytes() const { return byte_size(dtype, element_count(dims)); }
};

struct OpAttribute {
  PluginAttribute attribute;
};

struct KeyValuePairs {
  std::map<std::string, std::string> entries;
  std::vector<const char*> keys, values;  // of the last call that listed them
};

struct Domain {
  std::string name;
  std::shared_ptr<std::vector<const CustomOp*>> ops = std::make_shared<std::vector<const CustomOp*>>();
};

struct SessionOptions {
  std::vector<Domain> domains;
  std::map<std::string, std::string> config;
};

/// What a kernel is made of, shared by the copies that it keeps.
struct NodeOfKernel {
  std::string domain, type;
  NodeFacts facts;
  std::vector<PluginAttribute> attributes;
  /// Constant operands that were asked for; they live as long as the kernel.
  std::map<size_t, Value> constants;
  std::mutex mutex;
  const PluginAttribute* find(const char* name) const;
};

struct KernelInfo {
  std::shared_ptr<NodeOfKernel> node;
  const PluginCall* call = nullptr;  ///< of the run that made the kernel; null in copies
};

/// One run of a kernel.
struct KernelContext {
  KernelContext(const PluginCall& run, const NodeFacts& node, std::string called);
  const PluginCall& call;
  const NodeFacts& facts;
  const std::string who;
  std::deque<Value> inputs, outputs;
  std::vector<bool> asked;                            ///< by output
  std::vector<std::unique_ptr<std::byte[]>> scratch;  ///< until the run ends
};

struct ShapeContext {
  std::deque<TensorInfo> inputs;
  std::vector<OpAttribute> attributes;
  std::map<size_t, TensorInfo> outputs;  ///< that were set
};

struct Logger {};
extern const Logger the_logger;
extern Allocator the_allocator;

/// Undefined for types that libraries do not know, and the other way round.
ElementType element_type(DType dtype);
bool has_dtype(ElementType type);
/// Throws Error(unsupported) naming `what` for a type without one.
DType dtype_of(ElementType type, const std::string& what);

}  // namespace camshaft::ort
