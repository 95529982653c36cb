#include "ir/compiled_plugin.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstring>
#include <map>

#include "base/error.h"
#include "ir/limits.h"
#include "ir/ops/shape_rules.h"
#include "ir/plugin_detour.h"
#include "ir/plugin_notes.h"

namespace camshaft {

namespace {

constexpr size_t most_tactics = 64, most_operands = 4096;

std::string name_of(std::string_view what) {
  return fmt::format("{}{}", compiled_note_prefix, what);
}

std::string name_of(size_t tactic, std::string_view what) {
  return fmt::format("{}{}.{}", compiled_note_prefix, tactic, what);
}

[[noreturn]] void damaged(std::string_view what) {
  throw Error(ErrorCode::invalid_argument, fmt::format("the compiled kernels of a plugin are damaged: {}", what));
}

// Words that are read one after the other.
class Words {
 public:
  explicit Words(const std::vector<std::string>& words) : words_(words) {}
  bool done() const { return next_ == words_.size(); }
  const std::string& word() {
    if (done()) damaged("they end early");
    return words_[next_++];
  }
  size_t number(size_t most) {
    const std::string& text = word();
    size_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value > most)
      damaged(fmt::format("'{}' is no number up to {}", text.substr(0, 40), most));
    return value;
  }
  Dim dim() { return Dim::parse(word()); }

 private:
  const std::vector<std::string>& words_;
  size_t next_ = 0;
};

void put_type(std::vector<std::string>& words, const TensorType& type) {
  words.emplace_back(to_string(type.dtype));
  words.push_back(std::to_string(type.shape.size()));
  for (const Dim& d : type.shape) words.push_back(d.str());
}

TensorType take_type(const std::string& dtype, Words& words) {
  TensorType type{parse_dtype(dtype), {}};
  if (type.dtype == DType::string || is_container(type.dtype)) damaged("an operand is no tensor of numbers");
  for (size_t axis = words.number(static_cast<size_t>(most_axes)); axis > 0; --axis) type.shape.push_back(words.dim());
  return type;
}

void put_launch(std::vector<std::string>& words, const CompiledLaunch& launch) {
  words.push_back(launch.kernel);
  for (const Dim& d : launch.blocks) words.push_back(d.str());
  for (const Dim& d : launch.threads) words.push_back(d.str());
  words.push_back(launch.shared_bytes.str());
  words.push_back(std::to_string(launch.arguments.size()));
  for (const CompiledArgument& argument : launch.arguments) {
    words.push_back(std::to_string(static_cast<int>(argument.kind)));
    switch (argument.kind) {
      case CompiledArgument::Kind::input:
      case CompiledArgument::Kind::output:
        words.push_back(std::to_string(argument.index));
        break;
      case CompiledArgument::Kind::size:
        words.push_back(std::to_string(argument.width));
        words.push_back(argument.size.str());
        break;
      case CompiledArgument::Kind::bytes:
        words.push_back(argument.bytes);
        break;
    }
  }
}

CompiledLaunch take_launch(Words& words, const CompiledPlugin& of) {
  CompiledLaunch launch;
  launch.kernel = words.word();
  for (Dim& d : launch.blocks) d = words.dim();
  for (Dim& d : launch.threads) d = words.dim();
  launch.shared_bytes = words.dim();
  launch.arguments.resize(words.number(most_operands));
  for (CompiledArgument& argument : launch.arguments) {
    argument.kind = static_cast<CompiledArgument::Kind>(words.number(3));
    const bool is_input = argument.kind == CompiledArgument::Kind::input;
    if (is_input || argument.kind == CompiledArgument::Kind::output) {
      const size_t count = is_input ? of.inputs.size() : of.outputs.size();
      argument.index = words.number(most_operands);
      if (argument.index >= count) damaged("a launch names an operand that is not there");
    } else if (argument.kind == CompiledArgument::Kind::size) {
      argument.width = words.number(8);
      if (argument.width != 1 && argument.width != 2 && argument.width != 4 && argument.width != 8)
        damaged("an integer has a width that there is not");
      argument.size = words.dim();
    } else {
      argument.bytes = words.word();
    }
  }
  return launch;
}

const PluginAttribute* find(const std::vector<PluginAttribute>& attributes, const std::string& name) {
  const auto it =
      std::find_if(attributes.begin(), attributes.end(), [&](const PluginAttribute& a) { return a.name == name; });
  return it == attributes.end() ? nullptr : &*it;
}

const std::vector<std::string>& texts(const std::vector<PluginAttribute>& attributes, const std::string& name) {
  const PluginAttribute* attribute = find(attributes, name);
  const auto* list = attribute ? std::get_if<std::vector<std::string>>(&attribute->value) : nullptr;
  if (!list) damaged(name + " is missing");
  return *list;
}

CompiledKernels take_tactic(const std::vector<PluginAttribute>& attributes, size_t tactic, const CompiledPlugin& of) {
  CompiledKernels kernels;
  if (const PluginAttribute* module = find(attributes, name_of(tactic, "module"))) {
    const auto* tensor = std::get_if<Tensor>(&module->value);
    if (!tensor || tensor->bytes() == 0) damaged("a module of kernels has no bytes");
    kernels.module.assign(tensor->span().begin(), tensor->span().end());
  } else {
    Words words(texts(attributes, name_of(tactic, "text")));
    kernels.text = words.word();
  }
  Words words(texts(attributes, name_of(tactic, "launches")));
  while (!words.done()) kernels.launches.push_back(take_launch(words, of));
  return kernels;
}

class CompiledInstance final : public PluginInstance {
 public:
  CompiledInstance(CompiledPlugin plugin, std::string who, std::shared_ptr<const PluginInstance> own)
      : plugin_(std::move(plugin)), who_(std::move(who)), own_(std::move(own)) {}

  std::vector<TensorType> infer(const InferContext& context) const override {
    if (context.input_count() != plugin_.inputs.size() || context.output_count() != plugin_.outputs.size())
      refuse(
          fmt::format("it was compiled for {} operands and {} results", plugin_.inputs.size(), plugin_.outputs.size()));
    std::map<std::string, Dim, std::less<>> sizes;
    for (size_t i = 0; i < plugin_.inputs.size(); ++i) {
      const std::optional<TensorType>& known = plugin_.inputs[i];
      if (known.has_value() != context.has(i)) refuse(fmt::format("operand {} is one that it was compiled without", i));
      if (!known) continue;
      const TensorType& given = context.type(i);
      bool fits = given.dtype == known->dtype && given.shape.size() == known->shape.size();
      for (size_t axis = 0; fits && axis < given.shape.size(); ++axis) {
        const std::optional<std::string> symbol = known->shape[axis].as_symbol();
        const Dim& expected = symbol ? sizes.try_emplace(*symbol, given.shape[axis]).first->second : known->shape[axis];
        fits = !ops::provably_different(expected, given.shape[axis]);
      }
      if (!fits)
        refuse(fmt::format("operand {} is {}, and it was compiled for {}", i, to_string(given), to_string(*known)));
    }
    std::vector<TensorType> results = plugin_.outputs;
    for (TensorType& result : results)
      for (Dim& d : result.shape) d = d.substitute(sizes);
    return results;
  }

  size_t tactics(const PluginCall& call) const override {
    if (call.device) return plugin_.tactics.size();
    return has_host() ? own_->tactics(call) : 0;
  }
  bool supports(const PluginCall& call) const override {
    return call.tactic < tactics(call) && (call.device || own_->supports(call));
  }
  double seconds(const PluginCall& call) const override { return call.device || !own_ ? -1 : own_->seconds(call); }
  size_t workspace_bytes(const PluginCall& call) const override {
    return call.device || !has_host() ? 0 : own_->workspace_bytes(call);
  }
  bool has_reference() const override { return own_ && own_->has_reference(); }
  bool has_host() const override { return own_ && own_->has_host(); }
  bool has_device() const override { return true; }
  std::string device_text(size_t tactic) const override { return plugin_.tactics.at(tactic).text; }
  std::span<const std::byte> device_module(size_t tactic) const override { return plugin_.tactics.at(tactic).module; }

  void run(const PluginCall& call) const override {
    if (own_) return own_->run(call);
    run_by_detour(*this, who_, call);
  }
  void run_reference(const PluginCall& call) const override { own_ ? own_->run_reference(call) : run(call); }

  void run_on_device(const PluginCall& call) const override {
    const SymbolBindings sizes = sizes_of(call);
    std::vector<std::byte*> inputs, outputs;
    for (const PluginOperand& operand : call.inputs) inputs.push_back(operand.data);
    for (const PluginOperand& operand : call.outputs) outputs.push_back(operand.data);
    for (const auto& [output, input] : plugin_.aliases) {
      const PluginOperand& from = call.inputs[input];
      const size_t bytes = byte_size(from.dtype, element_count(from.dims));
      if (bytes > 0) call.device->copy(outputs[output], {inputs[input], bytes});
      inputs[input] = outputs[output];
    }
    for (const CompiledLaunch& launch : plugin_.tactics.at(call.tactic).launches)
      this->launch(launch, sizes, inputs, outputs, *call.device);
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(ErrorCode::invalid_argument, fmt::format("{} refuses its operands: {}", who_, why));
  }

  SymbolBindings sizes_of(const PluginCall& call) const {
    SymbolBindings sizes;
    for (size_t i = 0; i < plugin_.inputs.size(); ++i) {
      if (!plugin_.inputs[i]) continue;
      const Shape& known = plugin_.inputs[i]->shape;
      for (size_t axis = 0; axis < known.size(); ++axis) {
        const int64_t size = call.inputs[i].dims[axis];
        const std::optional<std::string> symbol = known[axis].as_symbol();
        const int64_t expected = symbol ? sizes.try_emplace(*symbol, size).first->second : known[axis].value();
        if (size != expected)
          refuse(fmt::format("operand {} has the size {} along axis {}, and it was compiled for {}", i, size, axis,
                             expected));
      }
    }
    return sizes;
  }

  void launch(const CompiledLaunch& launch, const SymbolBindings& sizes, const std::vector<std::byte*>& inputs,
              const std::vector<std::byte*>& outputs, const PluginDevice& device) const {
    const auto evaluated = [&](const Dim& d, int64_t least, int64_t most, const std::string& what) {
      const int64_t value = d.evaluate(sizes);
      if (value < least || value > most)
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{}: the {} of its kernel '{}', {}, is {} for these sizes, which is not from {} to {}",
                                who_, what, launch.kernel, d.str(), value, least, most));
      return value;
    };
    PluginGrid grid;
    bool is_empty = false;
    for (int axis = 0; axis < 3; ++axis) {
      grid.blocks[axis] = static_cast<unsigned>(evaluated(launch.blocks[axis], 0, INT32_MAX, "number of blocks"));
      grid.threads[axis] = static_cast<unsigned>(evaluated(launch.threads[axis], 1, 1024, "number of threads"));
      is_empty = is_empty || grid.blocks[axis] == 0;
    }
    if (is_empty) return;  // of an operand without elements
    grid.shared_bytes = static_cast<unsigned>(evaluated(launch.shared_bytes, 0, INT32_MAX, "shared memory"));
    // Sizes and addresses, all of at most eight bytes, of which a narrow integer takes the first.
    std::vector<int64_t> numbers(launch.arguments.size());
    std::vector<void*> addresses;
    for (size_t i = 0; i < launch.arguments.size(); ++i) {
      const CompiledArgument& argument = launch.arguments[i];
      if (argument.kind == CompiledArgument::Kind::bytes) {
        addresses.push_back(const_cast<char*>(argument.bytes.data()));
        continue;
      }
      if (argument.kind == CompiledArgument::Kind::size) {
        const int64_t most = static_cast<int64_t>(UINT64_MAX >> (65 - 8 * argument.width));
        numbers[i] = evaluated(argument.size, -most - 1, most, fmt::format("argument {}", i));
      } else {
        const bool is_input = argument.kind == CompiledArgument::Kind::input;
        const std::byte* data = (is_input ? inputs : outputs)[argument.index];
        std::memcpy(&numbers[i], &data, sizeof data);
      }
      addresses.push_back(&numbers[i]);
    }
    if (const std::vector<size_t>* parameters = device.parameters ? device.parameters(launch.kernel) : nullptr)
      check_arguments(launch, *parameters);
    device.launch(launch.kernel, grid, addresses.data());
  }

  // A launch reads as many bytes as the kernel's parameters have, whatever it is given.
  void check_arguments(const CompiledLaunch& launch, const std::vector<size_t>& parameters) const {
    if (launch.arguments.size() != parameters.size())
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: its kernel '{}' has {} parameters, and is given {}", who_, launch.kernel,
                              parameters.size(), launch.arguments.size()));
    for (size_t i = 0; i < parameters.size(); ++i) {
      const CompiledArgument& argument = launch.arguments[i];
      const size_t given = argument.kind == CompiledArgument::Kind::bytes ? argument.bytes.size() : sizeof(int64_t);
      if (parameters[i] > given)
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{}: parameter {} of its kernel '{}' has {} bytes, and is given {}", who_, i,
                                launch.kernel, parameters[i], given));
    }
  }

  CompiledPlugin plugin_;
  std::string who_;
  std::shared_ptr<const PluginInstance> own_;
};

}  // namespace

void check_kernel_name(const std::string& name) {
  const auto is_allowed = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '$'; };
  if (!name.empty() && std::all_of(name.begin(), name.end(), is_allowed)) return;
  std::string shown;
  for (const char c : name.substr(0, 80))
    shown += c >= ' ' && c <= '~' ? std::string(1, c) : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  throw Error(ErrorCode::invalid_argument,
              fmt::format("'{}' is no name of a kernel: these have letters, digits, _ and $", shown));
}

std::vector<PluginAttribute> encode(const CompiledPlugin& plugin) {
  static_assert(compiled_note_prefix.starts_with(plugin_note_prefix));
  std::vector<std::string> inputs, outputs;
  for (const std::optional<TensorType>& input : plugin.inputs) {
    if (input)
      put_type(inputs, *input);
    else
      inputs.emplace_back("");
  }
  for (const TensorType& output : plugin.outputs) put_type(outputs, output);
  std::vector<int64_t> facts{static_cast<int64_t>(plugin.tactics.size()), plugin.has_own_body ? 1 : 0};
  for (const auto& [output, input] : plugin.aliases) {
    facts.push_back(static_cast<int64_t>(output));
    facts.push_back(static_cast<int64_t>(input));
  }
  std::vector<PluginAttribute> attributes{{name_of("facts"), std::move(facts)},
                                          {name_of("inputs"), std::move(inputs)},
                                          {name_of("outputs"), std::move(outputs)}};
  for (size_t k = 0; k < plugin.tactics.size(); ++k) {
    const CompiledKernels& kernels = plugin.tactics[k];
    if (kernels.module.empty()) {
      attributes.push_back({name_of(k, "text"), std::vector<std::string>{kernels.text}});
    } else {
      Tensor module(DType::u8, {static_cast<int64_t>(kernels.module.size())});
      std::memcpy(module.mutable_data(), kernels.module.data(), kernels.module.size());
      attributes.push_back({name_of(k, "module"), std::move(module)});
    }
    std::vector<std::string> words;
    for (const CompiledLaunch& launch : kernels.launches) put_launch(words, launch);
    attributes.push_back({name_of(k, "launches"), std::move(words)});
  }
  return attributes;
}

std::optional<CompiledPlugin> decode_compiled(const std::vector<PluginAttribute>& attributes) {
  const PluginAttribute* found = find(attributes, name_of("facts"));
  if (!found) return std::nullopt;
  const auto* facts = std::get_if<std::vector<int64_t>>(&found->value);
  if (!facts || facts->size() < 2 || facts->size() % 2 != 0 || facts->at(0) < 1 ||
      facts->at(0) > static_cast<int64_t>(most_tactics))
    damaged("their facts are not what they should be");
  CompiledPlugin plugin;
  plugin.has_own_body = facts->at(1) != 0;
  Words inputs(texts(attributes, name_of("inputs")));
  while (!inputs.done() && plugin.inputs.size() < most_operands) {
    const std::string& dtype = inputs.word();
    plugin.inputs.emplace_back();
    if (dtype.empty()) continue;
    plugin.inputs.back() = take_type(dtype, inputs);
    for (const Dim& d : plugin.inputs.back()->shape)
      if (!d.is_constant() && !d.as_symbol()) damaged("a size of an operand is an expression");
  }
  Words outputs(texts(attributes, name_of("outputs")));
  while (!outputs.done() && plugin.outputs.size() < most_operands) {
    const std::string& dtype = outputs.word();
    plugin.outputs.push_back(take_type(dtype, outputs));
  }
  for (size_t i = 2; i < facts->size(); i += 2) {
    const auto output = static_cast<size_t>(facts->at(i)), input = static_cast<size_t>(facts->at(i + 1));
    if (output >= plugin.outputs.size() || input >= plugin.inputs.size() || !plugin.inputs[input] ||
        plugin.inputs[input]->dtype != plugin.outputs[output].dtype ||
        plugin.inputs[input]->shape != plugin.outputs[output].shape)
      damaged("a result lies in an operand that is another one");
    plugin.aliases.emplace_back(output, input);
  }
  for (int64_t k = 0; k < facts->at(0); ++k)
    plugin.tactics.push_back(take_tactic(attributes, static_cast<size_t>(k), plugin));
  return plugin;
}

std::shared_ptr<const PluginInstance> make_compiled_instance(CompiledPlugin plugin, std::string who,
                                                             std::shared_ptr<const PluginInstance> own) {
  if (!plugin.has_own_body) own = nullptr;
  return std::make_shared<const CompiledInstance>(std::move(plugin), std::move(who), std::move(own));
}

}  // namespace camshaft
