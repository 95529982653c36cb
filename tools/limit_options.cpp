#include "tools/limit_options.h"

#include "tools/number_option.h"

namespace camshaft::tools {

void LimitOptions::add_to(CLI::App& command, const std::string& doing) {
  command
      .add_option("--max-operations", max_operations,
                  "Refuse to " + doing +
                      " with more operations than this in all (default: 5e11, and 1e8 for each byte of weights, or "
                      "3e14 and 1e5 where that is less, and 2e4 for each byte of inputs, at most 1.5e12)")
      ->type_name("N")
      ->group("Limits");
  command
      .add_option("--max-memory", max_memory,
                  "Refuse to hold more bytes than this in the host's memory at once, beside the model's file (default: "
                  "a quarter of the machine's, 6 GiB at least, and 16 for each byte of weights)")
      ->type_name("BYTES")
      ->group("Limits");
}

ContextOptions LimitOptions::of_context(bool from_model, int threads) const {
  ContextOptions options;
  options.set("threads", threads);
  if (from_model || !max_operations.empty()) options.set("max-operations", operations());
  if (from_model || !max_memory.empty()) options.set("max-memory", bytes());
  return options;
}

double LimitOptions::operations() const {
  return parse_positive(max_operations, "max-operations", 0);
}

double LimitOptions::bytes() const {
  return parse_positive(max_memory, "max-memory", 0);
}

}  // namespace camshaft::tools
