// The options --max-operations and --max-memory.
#pragma once

#include <CLI/App.hpp>
#include <string>

#include "camshaft/builder.hpp"

namespace camshaft::tools {

/// What a command may take that builds an engine from a model (docs/options.md); empty: the defaults.
struct LimitOptions {
  std::string max_operations, max_memory;

  /// `doing`: what is limited, as "fold constants, measure and verify".
  void add_to(CLI::App& command, const std::string& doing);
  /// Of the runs of a model that was just built, within the defaults of a build; those of an engine are limited by what
  /// was given alone. Throws as below.
  ContextOptions of_context(bool from_model, int threads) const;
  /// `options` are BuildOptions or CalibrationOptions. Throws Error(invalid_argument) for anything but numbers above 0.
  template <class Options>
  void set(Options& options) const {
    if (!max_operations.empty()) options.set("max-operations", operations());
    if (!max_memory.empty()) options.set("max-memory", bytes());
  }

 private:
  double operations() const;
  double bytes() const;
};

}  // namespace camshaft::tools
