#include "tools/device_option.h"

#include "camshaft/device_id.h"
#include "camshaft/error.h"

namespace camshaft {

void add_device_option(CLI::App& command, std::string& device, const char* help) {
  command.add_option("--device", device, help)->type_name("DEVICE")->check([](const std::string& text) -> std::string {
    try {
      parse_device_id(text);
      return "";
    } catch (const Error& e) {
      return e.what();
    }
  });
}

}  // namespace camshaft
