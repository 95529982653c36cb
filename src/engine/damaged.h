// How loading an engine file fails.
#pragma once

#include <fmt/format.h>

#include "base/error.h"
#include "base/out_of_memory.h"
#include "ir/plugin.h"

namespace camshaft {

/// For what a sound engine file cannot hold; `what` says which.
[[noreturn]] inline void fail_corrupt(const std::string& what) {
  throw Error(ErrorCode::corrupt_engine, what);
}

/// Does `work` on the engine file at `path` and returns its result. Any Error becomes Error(corrupt_engine) that names
/// the file: what a sound one holds fits together. Lack of memory stays Error(out_of_memory), and an operator of a
/// plugin that is not loaded MissingPlugin.
template <class Work>
decltype(auto) name_damaged_engine(const std::string& path, const Work& work) {
  try {
    return name_out_of_memory([&] { return fmt::format("'{}': out of memory while loading", path); }, work);
  } catch (const MissingPlugin& e) {
    throw MissingPlugin(fmt::format("'{}': {}", path, e.what()));
  } catch (const Error& e) {
    if (e.code() == ErrorCode::out_of_memory) throw;
    throw Error(ErrorCode::corrupt_engine, fmt::format("'{}' is a damaged engine: {}", path, e.what()));
  }
}

}  // namespace camshaft
