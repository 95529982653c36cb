#include "tools/device_option.h"

#include "camshaft/error.hpp"
#include "camshaft/tensor.hpp"

namespace camshaft::tools {

void add_device_option(CLI::App& command, std::string& device, const char* help) {
  command.add_option("--device", device, help)->type_name("DEVICE")->check([](const std::string& text) -> std::string {
    try {
      parse_device(text);
      return "";
    } catch (const Error& e) {
      return e.what();
    }
  });
}

}  // namespace camshaft::tools
