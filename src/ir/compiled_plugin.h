// Operators whose kernels for GPUs were compiled ahead of time: engines keep them, and run them without the plugin.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/plugin.h"

namespace camshaft {

/// How the names of the attributes begin that a compiled node keeps: notes of ours (ir/plugin_notes.h), which are not
/// for the plugin's own instance.
constexpr std::string_view compiled_note_prefix = "camshaft.compiled.";

/// What a kernel gets for one of its parameters.
struct CompiledArgument {
  enum class Kind {
    input,   ///< the address of operand `index`
    output,  ///< the address of result `index`
    size,    ///< `size`, as a signed integer of `width` bytes
    bytes    ///< `bytes`, as they are
  };
  Kind kind = Kind::bytes;
  size_t index = 0;
  Dim size;
  size_t width = 0;
  std::string bytes;
};

struct CompiledLaunch {
  std::string kernel;
  Dim blocks[3] = {1, 1, 1}, threads[3] = {1, 1, 1}, shared_bytes;
  std::vector<CompiledArgument> arguments;
};

/// One way to compute a node: the kernels, as CUDA C++ or compiled, and the launches, which run one after the other.
struct CompiledKernels {
  std::string text;               ///< empty where there is a module
  std::vector<std::byte> module;  ///< a cubin, a fat binary or PTX
  std::vector<CompiledLaunch> launches;
};

/// A node of a plugin as it was compiled. Expressions are of the sizes of its operands.
struct CompiledPlugin {
  /// As the model has them, nullopt for one that is left out; sizes that it leaves open are symbols.
  std::vector<std::optional<TensorType>> inputs;
  std::vector<TensorType> outputs;
  /// (result, operand) where the result begins as a copy of the operand, and takes its place among the arguments.
  std::vector<std::pair<size_t, size_t>> aliases;
  std::vector<CompiledKernels> tactics;
  bool has_own_body = true;  ///< whether the plugin, where it is loaded, computes the node without these kernels, too
};

/// Throws Error(invalid_argument) for what can be no kernel's name: they have letters, digits, _ and $.
void check_kernel_name(const std::string& name);

/// As attributes of the node, which engines keep. decode gives nullopt for a node that has none of them, and throws
/// Error(invalid_argument) for damaged ones.
std::vector<PluginAttribute> encode(const CompiledPlugin& plugin);
std::optional<CompiledPlugin> decode_compiled(const std::vector<PluginAttribute>& attributes);

/// `who`: "the plugin example::Gelu (libgelu.so)". `own`: the plugin's own instance, against which the kernels are
/// verified; null where it is not loaded, or has no body but these kernels.
std::shared_ptr<const PluginInstance> make_compiled_instance(CompiledPlugin plugin, std::string who,
                                                             std::shared_ptr<const PluginInstance> own);

}  // namespace camshaft
