#include "plugin/c_compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "ir/graph.h"
#include "plugin/c_shapes.h"

namespace camshaft::plugin {

namespace {

constexpr size_t most_arguments = 4096;

/// The C form of what is compiled, for the time of one call.
class KernelsView {
 public:
  KernelsView(const InferContext& context, CompiledPlugin& made) : shapes_(context), made_(made) {
    c_.view = this;
    camshaft_plugin_kernels& c = c_.kernels;
    c.size = sizeof c;
    c.shapes = shapes_.get();
    c.has_own_body = made.has_own_body ? 1 : 0;
    c.fail = [](camshaft_plugin_kernels* self, const char* message) -> int32_t {
      return of(self).wrong(message && *message ? message : "it failed");
    };
    c.add_tactic = [](camshaft_plugin_kernels* self, const char* text, const void* module, size_t bytes) -> int32_t {
      return of(self).add_tactic(text, module, bytes);
    };
    c.add_launch = [](camshaft_plugin_kernels* self, const char* kernel, const camshaft_plugin_dim* const blocks[3],
                      const camshaft_plugin_dim* const threads[3], const camshaft_plugin_dim* shared_bytes,
                      size_t argument_count, const camshaft_plugin_argument* arguments) -> int32_t {
      return of(self).add_launch(kernel, blocks, threads, shared_bytes, argument_count, arguments);
    };
    c.alias = [](camshaft_plugin_kernels* self, size_t output, size_t input) -> int32_t {
      return of(self).alias(output, input);
    };
  }
  KernelsView(const KernelsView&) = delete;
  KernelsView& operator=(const KernelsView&) = delete;

  camshaft_plugin_kernels* get() { return &c_.kernels; }
  const std::string& message() const { return message_.empty() ? shapes_.message() : message_; }

 private:
  struct C {
    camshaft_plugin_kernels kernels = {};
    KernelsView* view = nullptr;
  } c_;
  static KernelsView& of(camshaft_plugin_kernels* kernels) { return *reinterpret_cast<C*>(kernels)->view; }

  int32_t wrong(std::string message) {
    if (message_.empty()) message_ = std::move(message);
    return 1;
  }

  int32_t add_tactic(const char* text, const void* module, size_t bytes) {
    if ((text != nullptr) == (module != nullptr) || (module && bytes == 0))
      return wrong("its kernels are CUDA C++ or a module of some bytes, one of the two");
    if (made_.tactics.size() == most_tactics) return wrong(fmt::format("{} tactics are possible", most_tactics));
    CompiledKernels kernels;
    if (text) kernels.text = text;
    const auto* from = static_cast<const std::byte*>(module);
    if (module) kernels.module.assign(from, from + bytes);
    made_.tactics.push_back(std::move(kernels));
    return 0;
  }

  /// Null, with the reason kept, becomes 0.
  Dim dim_of(const camshaft_plugin_dim* dim, const char* what) {
    if (dim) return ShapesView::dim_of(dim);
    wrong(fmt::format("a launch has no {}", what));
    return 0;
  }

  int32_t add_launch(const char* kernel, const camshaft_plugin_dim* const blocks[3],
                     const camshaft_plugin_dim* const threads[3], const camshaft_plugin_dim* shared_bytes,
                     size_t argument_count, const camshaft_plugin_argument* arguments) {
    if (made_.tactics.empty()) return wrong("a launch comes after the tactic that it is of");
    if (!kernel || !*kernel) return wrong("a launch names no kernel");
    try {
      check_kernel_name(kernel);
    } catch (const Error& e) {
      return wrong(e.what());
    }
    if (argument_count > most_arguments || (argument_count > 0 && !arguments))
      return wrong(fmt::format("a launch of '{}' has {} arguments", kernel, argument_count));
    CompiledLaunch launch;
    launch.kernel = kernel;
    for (int axis = 0; axis < 3; ++axis) {
      launch.blocks[axis] = dim_of(blocks[axis], "number of blocks");
      launch.threads[axis] = dim_of(threads[axis], "number of threads");
    }
    launch.shared_bytes = dim_of(shared_bytes, "size of its shared memory");
    for (size_t i = 0; i < argument_count; ++i) {
      const camshaft_plugin_argument& given = arguments[i];
      CompiledArgument argument;
      switch (given.kind) {
        case CAMSHAFT_PLUGIN_INPUT:
        case CAMSHAFT_PLUGIN_OUTPUT: {
          const bool is_input = given.kind == CAMSHAFT_PLUGIN_INPUT;
          argument.kind = is_input ? CompiledArgument::Kind::input : CompiledArgument::Kind::output;
          argument.index = given.index;
          if (given.index >= (is_input ? made_.inputs.size() : made_.outputs.size()))
            return wrong(fmt::format("argument {} of '{}' is {} {}, which is not there", i, kernel,
                                     is_input ? "operand" : "result", given.index));
          break;
        }
        case CAMSHAFT_PLUGIN_SIZE:
          argument.kind = CompiledArgument::Kind::size;
          argument.size = dim_of(given.dim, "value for one of its arguments");
          argument.width = given.bytes;
          if (given.bytes != 1 && given.bytes != 2 && given.bytes != 4 && given.bytes != 8)
            return wrong(fmt::format("argument {} of '{}' is an integer of {} bytes", i, kernel, given.bytes));
          break;
        case CAMSHAFT_PLUGIN_BYTES:
          if (given.bytes == 0 || !given.data) return wrong(fmt::format("argument {} of '{}' has no bytes", i, kernel));
          argument.bytes.assign(static_cast<const char*>(given.data), given.bytes);
          break;
        default:
          return wrong(fmt::format("argument {} of '{}' is of a kind that there is not ({})", i, kernel, given.kind));
      }
      launch.arguments.push_back(std::move(argument));
    }
    made_.tactics.back().launches.push_back(std::move(launch));
    return message_.empty() ? 0 : 1;
  }

  int32_t alias(size_t output, size_t input) {
    if (output >= made_.outputs.size() || input >= made_.inputs.size() || !made_.inputs[input])
      return wrong(fmt::format("result {} cannot lie in operand {}: one of them is not there", output, input));
    if (!(made_.outputs[output] == *made_.inputs[input]))
      return wrong(fmt::format("result {} is {}, and cannot lie in operand {}, which is {}", output,
                               to_string(made_.outputs[output]), input, to_string(*made_.inputs[input])));
    made_.aliases.emplace_back(output, input);
    return 0;
  }

  ShapesView shapes_;
  CompiledPlugin& made_;
  std::string message_;
};

}  // namespace

CompiledPlugin compile_ahead(const std::string& who, const PluginInstance& instance, const PluginModelNode& node,
                             bool has_body, const CompileCall& compile) {
  const auto fail = [&](const std::string& why) {
    throw Error(ErrorCode::invalid_argument, fmt::format("{} cannot be compiled ahead of time: {}", who, why));
  };
  CompiledPlugin made;
  made.has_own_body = has_body;
  // A symbol for each size that is open, the same for sizes that are equal: a run knows them by the operands alone.
  std::map<std::string, Dim> symbols;
  std::vector<Value> values(node.inputs.size());
  std::vector<const Value*> operands;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const PluginModelNode::Operand& input = node.inputs[i];
    if (!input.present) {
      made.inputs.emplace_back();
      operands.push_back(nullptr);
      continue;
    }
    TensorType type{input.dtype, input.shape};
    for (size_t axis = 0; axis < type.shape.size(); ++axis) {
      Dim& size = type.shape[axis];
      if (size.is_constant()) continue;
      size = symbols.try_emplace(size.str(), Dim::symbol(fmt::format("operand{}_axis{}", i, axis))).first->second;
    }
    values[i].type = type;
    // Shape rules look at integers alone.
    const bool may_be_sizes = is_integer(input.dtype) && input.shape.size() <= 1;
    if (const auto constant = may_be_sizes && input.constant ? input.constant() : nullptr) {
      values[i].constant = constant;
      values[i].content = constant_content(*constant);
    }
    operands.push_back(&values[i]);
    made.inputs.push_back(std::move(type));
  }
  std::vector<std::string> names;
  for (size_t o = 0; o < node.outputs.size(); ++o) names.push_back(fmt::format("output{}", o));
  const InferContext context(operands, names, nullptr);
  made.outputs = instance.infer(context);
  KernelsView view(context, made);
  const int32_t status = compile(view.get());
  if (status != 0 || !view.message().empty()) fail(view.message().empty() ? "it does not say why" : view.message());
  made.has_own_body = has_body && view.get()->has_own_body != 0;
  std::vector<std::string> known;
  for (const auto& [text, symbol] : symbols) known.push_back(symbol.str());
  const auto check = [&](const Dim& d, const std::string& what) {
    std::vector<std::string> used;
    d.collect_symbols(used);
    for (const std::string& symbol : used)
      if (std::find(known.begin(), known.end(), symbol) == known.end())
        fail(fmt::format("{} is {}, which its operands' sizes do not tell", what, d.str()));
  };
  if (made.tactics.empty()) return made;
  for (size_t o = 0; o < made.outputs.size(); ++o)
    for (const Dim& d : made.outputs[o].shape) check(d, fmt::format("a size of result {}", o));
  for (const CompiledKernels& kernels : made.tactics) {
    if (kernels.launches.empty()) fail("a tactic launches nothing");
    for (const CompiledLaunch& launch : kernels.launches) {
      for (const Dim& d : launch.blocks) check(d, "a number of blocks");
      for (const Dim& d : launch.threads) check(d, "a number of threads");
      check(launch.shared_bytes, "the size of shared memory");
      for (const CompiledArgument& argument : launch.arguments)
        if (argument.kind == CompiledArgument::Kind::size) check(argument.size, "an argument of a kernel");
    }
  }
  return made;
}

}  // namespace camshaft::plugin
