// Facts that leave the library, as trees of named values.
#pragma once

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "camshaft/camshaft.h"

namespace camshaft::api {

/// The value as a handle that the caller frees.
camshaft_record* new_record(nlohmann::json value);

/// Runs what makes a report, and gives the caller who wants one what `described` makes of it: also where the run
/// throws, but for what says nothing of the model.
template <class Run, class Described>
void run_with_report(camshaft_record** report, const Run& run, const Described& described) {
  const auto keep = [&] {
    if (report != nullptr) *report = new_record(described());
  };
  try {
    run();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::verification_failed) keep();
    throw;
  }
  keep();
}

}  // namespace camshaft::api
