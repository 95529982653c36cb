#include "plugin/ort/custom_operator.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>

#include "base/error.h"
#include "base/foreign_call.h"
#include "plugin/ort/api.h"
#include "plugin/ort/node_rule.h"
#include "plugin/running_calls.h"

namespace camshaft::ort {

namespace {

/// The tables of an operator, and what it is called in messages.
struct TablesOfOperator {
  std::string who;  ///< "the custom operator my::Op (libmy.so)"
  std::string domain, name;
  std::vector<OpTable> tables;  ///< those for the host
  std::string elsewhere;        ///< what the others are for, "CUDAExecutionProvider"
};

/// Calls a function of the library; a status, an exception, and a call that it must not make become an Error.
template <class Call>
void call_library(const std::string& who, const char* what, const Call& call) {
  std::string message;
  take_complaint();
  try {
    message = take(foreign_call(call));
  } catch (const ForeignException& e) {
    message = e.is_standard ? e.message : "it threw something that is no std::exception";
    if (message.empty()) message = "it threw an exception without a message";
  }
  const std::string complaint = take_complaint();
  if (message.empty()) message = complaint;
  if (!message.empty()) throw Error(ErrorCode::invalid_argument, fmt::format("{} {}: {}", who, what, message));
}

class CustomInstance final : public PluginInstance {
 public:
  CustomInstance(std::shared_ptr<const TablesOfOperator> of, const PluginNode& node)
      : of_(std::move(of)), node_(std::make_shared<NodeOfKernel>()) {
    node_->domain = of_->domain;
    node_->type = of_->name;
    node_->facts = from_notes(node.attributes);
    for (const PluginAttribute& attribute : node.attributes)
      if (!attribute.name.starts_with(plugin_note_prefix)) node_->attributes.push_back(attribute);
    table_ = &table_for(of_->tables, node_->facts, of_->who);
  }
  ~CustomInstance() override {
    if (kernel_ && table_->get().destroy_kernel) table_->get().destroy_kernel(kernel_);
  }
  CustomInstance(const CustomInstance&) = delete;
  CustomInstance& operator=(const CustomInstance&) = delete;

  std::vector<TensorType> infer(const InferContext& context) const override;
  void run(const PluginCall& call) const override;

 private:
  void* kernel(const PluginCall& call) const;

  std::shared_ptr<const TablesOfOperator> of_;
  std::shared_ptr<NodeOfKernel> node_;
  const OpTable* table_ = nullptr;
  mutable std::mutex mutex_;
  mutable void* kernel_ = nullptr;
  mutable bool has_kernel_ = false;
};

// Shapes were settled when the model was read; here sizes take the place of what they were called then.
std::vector<TensorType> CustomInstance::infer(const InferContext& context) const {
  const NodeFacts& facts = node_->facts;
  std::map<std::string, Dim> sizes;
  const auto refuse = [&](size_t i, const std::string& what) {
    throw Error(ErrorCode::invalid_argument, fmt::format("{} was made for {} as operand {}", of_->who, what, i));
  };
  for (size_t i = 0; i < facts.inputs.size(); ++i) {
    const OperandFacts& input = facts.inputs[i];
    if (!input.present) continue;
    if (!context.has(i) || element_type(context.dtype(i)) != input.type || context.shape(i).size() != input.dims.size())
      refuse(i, fmt::format("another type or other axes ({})", input.dims.size()));
    for (size_t axis = 0; axis < input.dims.size(); ++axis) {
      const Dim& size = context.shape(i)[axis];
      int64_t number = 0;
      if (!is_number(input.dims[axis], number)) {
        sizes.try_emplace(input.dims[axis], size);
      } else if (size.is_constant() && size.value() != number) {
        refuse(i, fmt::format("the size {} along axis {}", number, axis));
      }
    }
  }
  std::vector<TensorType> results;
  for (size_t o = 0; o < facts.outputs.size(); ++o) {
    const OperandFacts& output = facts.outputs[o];
    TensorType type{dtype_of(output.type, of_->who), {}};
    for (size_t axis = 0; axis < output.dims.size(); ++axis) {
      int64_t number = 0;
      if (is_number(output.dims[axis], number)) {
        type.shape.push_back(Dim(number));
      } else if (const auto it = sizes.find(output.dims[axis]); it != sizes.end() && !output.dims[axis].empty()) {
        type.shape.push_back(it->second);
      } else {
        type.shape.push_back(context.fresh(o, axis));
      }
    }
    results.push_back(std::move(type));
  }
  return results;
}

// Made in the first run, where the elements of constants are at hand.
void* CustomInstance::kernel(const PluginCall& call) const {
  const std::lock_guard lock(mutex_);
  if (has_kernel_) return kernel_;
  const CustomOp& op = table_->get();
  const KernelInfo info{node_, &call};
  call_library(of_->who, "cannot be created", [&]() -> Status* {
    if (table_->has_create_v2()) return op.create_kernel_v2(&op, &api(), &info, &kernel_);
    kernel_ = op.create_kernel(&op, &api(), &info);
    return nullptr;
  });
  has_kernel_ = true;
  return kernel_;
}

void CustomInstance::run(const PluginCall& call) const {
  void* const kernel = this->kernel(call);
  KernelContext context(call, node_->facts, of_->who);
  const plugin::RunningCall running(of_->who);
  call_library(of_->who, "failed", [&]() -> Status* {
    if (table_->has_compute_v2()) return table_->get().compute_v2(kernel, &context);
    table_->get().compute(kernel, &context);
    return nullptr;
  });
  if (call.cancellation) call.cancellation->check("running a custom operator");
  for (size_t o = 0; o < context.outputs.size(); ++o) {
    if (context.asked[o]) continue;
    if (node_->facts.outputs[o].present)
      throw Error(ErrorCode::invalid_argument, fmt::format("{} failed: it computed no output {}", of_->who, o));
    // One that the node leaves out: nobody looks at it.
    if (call.resize && !context.outputs[o].data) call.resize(o, Dims(node_->facts.outputs[o].dims.size(), 0));
  }
}

class CustomOperator final : public PluginOperator, public PluginNoteTaker {
 public:
  explicit CustomOperator(std::shared_ptr<const TablesOfOperator> of) : of_(std::move(of)) {}
  std::shared_ptr<const PluginInstance> create(const PluginNode& node) const override {
    return std::make_shared<const CustomInstance>(of_, node);
  }
  std::vector<PluginAttribute> notes(const PluginModelNode& node) const override {
    if (of_->tables.empty())
      throw Error(ErrorCode::unsupported,
                  fmt::format("{} is for {} alone: custom operators run on the host", of_->who, of_->elsewhere));
    return to_notes(read_node(of_->tables, node, of_->who));
  }

 private:
  std::shared_ptr<const TablesOfOperator> of_;
};

void check_table(const OpTable& table, const std::string& who) {
  const CustomOp& op = table.get();
  const bool has_compute = op.compute || table.has_compute_v2(), has_create = op.create_kernel || table.has_create_v2();
  for (const auto& [is_there, what] : {std::pair(has_create, "CreateKernel"), std::pair(has_compute, "KernelCompute"),
                                       std::pair(op.input_type && op.input_count, "GetInputType"),
                                       std::pair(op.output_type && op.output_count, "GetOutputType")})
    if (!is_there) throw Error(ErrorCode::invalid_argument, fmt::format("{} has no {}", who, what));
  if (table.output_count() == 0) throw Error(ErrorCode::invalid_argument, fmt::format("{} has no outputs", who));
}

/// What any of the tables takes as an operand, as bits of dtypes.
std::vector<uint64_t> types_of_operands(const std::vector<OpTable>& tables) {
  size_t most = 0;
  for (const OpTable& table : tables) most = std::max(most, table.input_count());
  std::vector<uint64_t> types(most);
  for (const OpTable& table : tables)
    for (size_t i = 0; i < most && table.input_count() > 0; ++i) {
      const ElementType type = table.input_type(table.input_parameter(i));
      if (type == undefined_element) types[i] = ~uint64_t{0};
      if (has_dtype(type)) types[i] |= uint64_t{1} << static_cast<unsigned>(dtype_of(type, ""));
    }
  return types;
}

}  // namespace

std::string name_of(const CustomOp& op) {
  if (op.version < 1 || op.version > newest_api)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("one of its operators has version {} (ORT_API_VERSION), and versions up to {} are there",
                            op.version, newest_api));
  const char* name = op.name ? op.name(&op) : nullptr;
  if (!name || !*name) throw Error(ErrorCode::invalid_argument, "one of its operators has no name");
  return name;
}

std::shared_ptr<const PluginOperator> make_custom_operator(const std::string& domain, std::vector<const CustomOp*> ops,
                                                           const std::string& file, const std::string& hash) {
  auto of = std::make_shared<TablesOfOperator>();
  of->domain = domain;
  of->name = name_of(*ops.at(0));
  of->who = fmt::format("the custom operator {}{}{} ({})", domain, domain.empty() ? "" : "::", of->name, file);
  for (const CustomOp* op : ops) {
    const OpTable table(*op);
    check_table(table, of->who);
    if (table.runs_on_host()) {
      of->tables.push_back(table);
    } else {
      of->elsewhere += (of->elsewhere.empty() ? "" : ", ") + table.provider();
    }
  }
  auto made = std::make_shared<CustomOperator>(of);
  made->domain = domain;
  made->name = of->name;
  made->version = "1";
  made->file = file;
  made->hash = hash;
  made->types = types_of_operands(of->tables);
  return made;
}

}  // namespace camshaft::ort
