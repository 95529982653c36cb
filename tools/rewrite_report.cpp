#include "tools/rewrite_report.h"

#include <fmt/format.h>

#include "tools/format_bytes.h"
#include "tools/report.h"

namespace camshaft::tools {

void print_sizes(const RewrittenFiles& files, const RewriteReport& report) {
  const auto line = [](const char* what, const std::string& file, int64_t nodes, int64_t bytes, int64_t opset) {
    fmt::print("{:<9} {}: {} nodes, {}, operator set {}\n", what, file, nodes, format_bytes(static_cast<size_t>(bytes)),
               opset);
  };
  line("model", files.model, report.nodes_before, report.bytes_before, report.opset_before);
  line("written", files.written, report.nodes, report.bytes, report.opset);
}

void print_verification(const RewrittenFiles& files, const RewriteReport& report) {
  if (!files.verified) fmt::print("verify    off\n");
  const std::string errors = format_errors(report.verification);
  for (size_t at = 0; at < errors.size();) {
    const size_t end = errors.find('\n', at);
    fmt::print("verify    {}\n", errors.substr(at, end - at));
    at = end + 1;
  }
  for (const std::string& sample : report.samples) fmt::print("verify    on {}\n", sample);
  for (const std::string& text : report.not_verified) fmt::print("verify    not on {}\n", text);
}

nlohmann::json to_json(const RewrittenFiles& files, const RewriteReport& report) {
  const auto side = [](const std::string& file, int64_t nodes, int64_t bytes, int64_t opset) {
    return nlohmann::json{{"file", file}, {"nodes", nodes}, {"bytes", bytes}, {"opset", opset}};
  };
  return {{"model", side(files.model, report.nodes_before, report.bytes_before, report.opset_before)},
          {"written", side(files.written, report.nodes, report.bytes, report.opset)},
          {"verified", files.verified},
          {"verification", to_json(report.verification)},
          {"samples", report.samples},
          {"not_verified", report.not_verified}};
}

}  // namespace camshaft::tools
