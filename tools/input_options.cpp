#include "tools/input_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>

#include "camshaft/error.hpp"
#include "tools/interrupt.h"
#include "tools/named_file.h"
#include "tools/npy.h"
#include "tools/npz.h"
#include "tools/number_option.h"
#include "tools/tensor_text.h"

namespace camshaft::tools {

namespace {

std::string listed(const std::vector<TensorInfo>& inputs) {
  std::string out;
  for (const TensorInfo& info : inputs) out += fmt::format("{}{}", out.empty() ? "" : ", ", to_string(info));
  return out.empty() ? "(none)" : out;
}

void check_shape(const TensorInfo& info, const Dims& dims, const std::string& place) {
  bool fits = dims.size() == info.dims.size();
  for (size_t i = 0; fits && i < dims.size(); ++i) fits = info.dims[i] < 0 || info.dims[i] == dims[i];
  if (!fits)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} has shape {}, which does not fit input {}", place, to_string(dims), to_string(info)));
}

// Of the engine's metadata, and of its input.
constexpr const char* lora_input = "lora";

// The value of that input; nothing for an engine without adapters.
std::optional<Tensor> chosen_adapter(const Engine& engine, const std::string& wanted) {
  const auto listed = engine.metadata().find(lora_input);
  if (listed == engine.metadata().end()) {
    if (wanted.empty()) return std::nullopt;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("--lora {}: the engine has no adapters; build it with --lora NAME=FILE", wanted));
  }
  int64_t chosen = 0;
  if (!wanted.empty() && wanted != "none") {
    int64_t number = 0;
    for (std::string_view rest = listed->second; chosen == 0 && !rest.empty();) {
      const size_t comma = std::min(rest.find(", "), rest.size());
      ++number;
      if (rest.substr(0, comma) == wanted) chosen = number;
      rest.remove_prefix(std::min(comma + 2, rest.size()));
    }
    if (chosen == 0)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("--lora: the engine has no adapter '{}'; it has {}", wanted, listed->second));
  }
  Tensor tensor(DType::i64, Dims{});
  std::memcpy(tensor.mutable_data(), &chosen, sizeof chosen);
  return tensor;
}

}  // namespace

void InputOptions::add_to(CLI::App& command) {
  command.add_option("--inputs", archive, "Arrays by the names of the inputs, as numpy.savez writes them")
      ->type_name("IN.npz")
      ->group("Inputs");
  command.add_option("--input", arrays, "One input from a .npy file; may be given several times")
      ->type_name("NAME=FILE.npy")
      ->allow_extra_args(false)
      ->group("Inputs");
  command
      .add_option("--shapes", shapes, "Shapes of the inputs that are made up, and to tune a model for: x:1x3x224x224")
      ->type_name("NAME:SHAPE[,NAME:SHAPE…]")
      ->allow_extra_args(false)
      ->group("Inputs");
  command.add_option("--lora", lora, "Which adapter of the engine to run with (default: none)")
      ->type_name("NAME")
      ->group("Inputs");
  command.add_option("--seed", seed, "Of the made-up inputs (default: 0)")->type_name("N")->group("Inputs");
}

GivenInputs::GivenInputs(const InputOptions& options) : shapes_(parse_shapes(options.shapes)), lora_(options.lora) {
  seed_ = static_cast<uint64_t>(parse_whole(options.seed, "seed", 0, INT64_MAX, 0));
  const auto add = [&](const std::string& name, Tensor tensor, std::string place) {
    if (const auto it = arrays_.find(name); it != arrays_.end())
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("input '{}' is given twice: by {} and by {}", name, it->second.place, place));
    if (const auto it = shapes_.find(name); it != shapes_.end() && it->second != tensor.dims())
      throw Error(ErrorCode::invalid_argument, fmt::format("{} has shape {}, but --shapes says {}", place,
                                                           to_string(tensor.dims()), to_string(it->second)));
    shapes_[name] = tensor.dims();
    arrays_.emplace(name, Array{std::move(tensor), std::move(place)});
  };
  if (!options.archive.empty())
    for (auto& [name, tensor] : read_arrays(options.archive))
      add(name, std::move(tensor), fmt::format("'{}': array '{}'", options.archive, name));
  for (const std::string& text : options.arrays) {
    const auto [name, path] = parse_named_file(text, "--input", "NAME=FILE.npy");
    add(name, read_npy(path), fmt::format("'{}'", path));
  }
}

GivenInputs::Complete GivenInputs::complete(const Engine& engine) const {
  const std::vector<TensorInfo>& infos = engine.inputs();
  for (const auto& [name, array] : arrays_)
    if (std::none_of(infos.begin(), infos.end(), [&n = name](const TensorInfo& info) { return info.name == n; }))
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: no input is named '{}'; the inputs are: {}", array.place, name, listed(infos)));
  for (const auto& [name, dims] : shapes_) {
    const auto info = std::find_if(infos.begin(), infos.end(), [&n = name](const auto& i) { return i.name == n; });
    if (info == infos.end())
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("--shapes: no input is named '{}'; the inputs are: {}", name, listed(infos)));
    const auto array = arrays_.find(name);
    check_shape(*info, dims, array == arrays_.end() ? fmt::format("--shapes: '{}'", name) : array->second.place);
  }
  const std::optional<Tensor> adapter = chosen_adapter(engine, lora_);
  if (!lora_.empty() && arrays_.contains(lora_input))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the adapter is given twice: by {} and by --lora", arrays_.at(lora_input).place));
  Complete complete;
  complete.tensors.resize(infos.size());
  bool missing = false;
  for (size_t i = 0; i < infos.size(); ++i) {
    const auto it = arrays_.find(infos[i].name);
    if (it == arrays_.end() && adapter && infos[i].name == lora_input) {
      complete.tensors[i] = *adapter;
      continue;
    }
    missing |= it == arrays_.end();
    if (it != arrays_.end() && is_container(infos[i].dtype))
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: input '{}' is {}, which cannot be read from files; leave it out, and it is made up",
                              it->second.place, infos[i].name, infos[i].type));
    if (it != arrays_.end())
      complete.tensors[i] = from_numpy(it->second.tensor, infos[i].dtype,
                                       fmt::format("{} (input '{}')", it->second.place, infos[i].name));
  }
  if (!missing) return complete;
  const NamedTensors samples = [&] {
    cancel_on_interrupt().check("making inputs up");
    const EndsAtOnce at_once;  // gigabytes take seconds
    return engine.sample_inputs(shapes_, seed_);
  }();
  for (size_t i = 0; i < infos.size(); ++i) {
    if (complete.tensors[i].defined()) continue;
    complete.tensors[i] = samples[i].second;
    complete.generated.push_back(fmt::format("{}: {}{}", infos[i].name, camshaft::to_string(infos[i].dtype),
                                             to_string(samples[i].second.dims())));
  }
  return complete;
}

}  // namespace camshaft::tools
