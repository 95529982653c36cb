// Questions about the symbols that dims name.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "ir/dim.h"

namespace camshaft {

/// Whether `holds(name)` is true of every symbol.
template <class Predicate>
bool all_symbols(const std::vector<Dim>& dims, const Predicate& holds) {
  std::vector<std::string> names;
  for (const Dim& d : dims) d.collect_symbols(names);
  return std::all_of(names.begin(), names.end(), holds);
}

/// Whether the dims can be evaluated.
inline bool is_bound(const std::vector<Dim>& dims, const SymbolBindings& bindings) {
  return all_symbols(dims, [&](const std::string& name) { return bindings.contains(name); });
}

/// Whether one of the sizes is a matter of the data of `value` itself: such symbols are named after it.
inline bool names_sizes_of(const std::string& value, const std::vector<Dim>& dims) {
  return !all_symbols(dims, [&](const std::string& name) { return !name.starts_with("@" + value + "."); });
}

/// Whether one of the sizes is a matter of data, see InferContext::fresh(): only running can tell it.
inline bool names_run_time_sizes(const std::vector<Dim>& dims) {
  return !all_symbols(dims, [](const std::string& name) { return !name.starts_with('@'); });
}

}  // namespace camshaft
