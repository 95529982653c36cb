// The options of builds, loads, contexts and calibrations, each under the one name that it has in every interface and
// in the documentation.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "builder/builder.h"
#include "builder/calibrate.h"
#include "quantize/calibration_file.h"
#include "runtime/context.h"
#include "runtime/engine.h"

namespace camshaft::api {

/// What options set.
struct Settings {
  BuildOptions build;  ///< of a calibration, too
  ContextOptions context;
  LoadOptions load;
  CalibrationOptions calibration;
  CalibrationFormat calibration_format = CalibrationFormat::json;
};

enum class OptionKind { boolean, integer, number, text, list };

struct Option {
  std::string_view name;
  OptionKind kind;
  std::string_view description;
  /// The value is of the option's kind (one item of a list). Throws Error(invalid_argument) for one out of range.
  void (*set)(Settings& settings, const nlohmann::json& value);
  nlohmann::json (*get)(const Settings& settings);
  /// Of text that is one of a few words: these.
  std::span<const std::string_view> choices = {};
};

/// `what`: CAMSHAFT_BUILD, CAMSHAFT_CONTEXT, CAMSHAFT_CALIBRATION or CAMSHAFT_LOAD. Throws Error(invalid_argument) for
/// another number.
std::span<const Option> options_of(int32_t what);
/// Throws Error(invalid_argument) that lists the options with similar names, or all where there is none.
const Option& find_option(int32_t what, std::string_view name);
/// The value of an option in text. Throws Error(invalid_argument) that names the option and what it takes.
nlohmann::json parse_value(const Option& option, const std::string& text);

/// "boolean", "integer", "number", "text", "list".
std::string_view to_string(OptionKind kind);

}  // namespace camshaft::api
