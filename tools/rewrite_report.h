// What `simplify` and `quantize` print of the model that they have written.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "camshaft/report.hpp"

namespace camshaft::tools {

struct RewrittenFiles {
  std::string model, written;
  bool verified = true;
};

/// Two lines: nodes, bytes and operator sets of both files.
void print_sizes(const RewrittenFiles& files, const RewriteReport& report);
/// A line for each output, and for what it was judged on.
void print_verification(const RewrittenFiles& files, const RewriteReport& report);
nlohmann::json to_json(const RewrittenFiles& files, const RewriteReport& report);

}  // namespace camshaft::tools
