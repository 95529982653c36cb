// The adapters of an engine that was built with some (BuildOptions::lora).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ir/tensor.h"

namespace camshaft {

/// The name of the input, an i64 scalar, that chooses one: 0 is none, 1 the first. Also of the engine's metadata that
/// list their names.
inline constexpr std::string_view lora_input = "lora";

/// As they are in the metadata; names have no commas.
std::string join_adapters(const std::vector<std::string>& names);
/// In their order; empty for an engine without any.
std::vector<std::string> adapters_of(const std::map<std::string, std::string>& metadata);

/// The initializers that a refit replaces: those of a module of an adapter.
std::string adapter_tensor(std::string_view adapter, std::string_view module, char matrix);

/// One of these with as many rows or columns as the engine has, the greatest rank of the product's adapters: those that
/// it lacks are zeros. Throws Error(invalid_argument), naming the tensor, for one that is larger or has other channels.
Tensor padded_to_rank(const Tensor& matrix, const Dims& dims, char which, const std::string& name);

/// Throws Error(invalid_argument), which lists what there is, for a number that is no adapter's.
void check_adapter(int64_t chosen, const std::vector<std::string>& names);

}  // namespace camshaft
