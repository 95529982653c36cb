#include "tools/weight_budget_option.h"

#include "camshaft/error.hpp"
#include "camshaft/options.hpp"

namespace camshaft::tools {

void add_weight_budget_option(CLI::App& command, std::string& budget) {
  command
      .add_option("--weight-budget", budget,
                  "How much of the weights is in memory at once: bytes (800MiB, 1.5GB), a part (40%), auto (what is "
                  "free)\nor none (the default); what does not fit comes in from the file, or to a GPU from the host, "
                  "ahead of\nthe layers that read it")
      ->type_name("SIZE")
      ->check([](const std::string& text) -> std::string {
        try {
          LoadOptions().set("weight-budget", text);
          return "";
        } catch (const Error& e) {
          return e.what();
        }
      });
}

}  // namespace camshaft::tools
