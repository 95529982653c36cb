// Operators from outside.
#include "ir/plugin.h"

#include <fmt/format.h>

#include "api/record.h"
#include "api/status.h"
#include "onnx/claimed_operators.h"
#include "plugin/load.h"
#include "plugin/ort/load.h"
#include "reference/plugin_run.h"

using namespace camshaft;
using namespace camshaft::api;

camshaft_status camshaft_load_plugin(const char* source) {
  return guarded([&] { plugin::load(given(source, "source")); });
}

camshaft_status camshaft_load_ort_custom_ops(const char* library) {
  return guarded([&] { ort::load_custom_ops(given(library, "library")); });
}

camshaft_status camshaft_register_plugin(const camshaft_plugin_operator* plugin, const char* source, const char* hash) {
  return guarded([&] { plugin::add(*given(plugin, "plugin"), given(source, "source"), given(hash, "hash")); });
}

camshaft_status camshaft_unregister_plugin(const char* name) {
  return guarded([&] {
    if (!withdraw_plugin(given(name, "name")))
      throw Error(ErrorCode::invalid_argument, fmt::format("no plugin '{}' is loaded", name));
  });
}

camshaft_status camshaft_list_plugins(camshaft_record** plugins) {
  return guarded([&] {
    give(plugins, "plugins", [&] {
      nlohmann::json list = nlohmann::json::array();
      for (const auto& plugin : loaded_plugins())
        list.push_back({{"name", plugin->full_name()},
                        {"kind", "plugin"},
                        {"version", plugin->version},
                        {"file", plugin->file},
                        {"hash", plugin->hash}});
      for (const onnx::ClaimedName& claimed : onnx::claimed_names())
        list.push_back({{"name", claimed.name},
                        {"kind", claimed.is_function ? "function" : "text"},
                        {"version", ""},
                        {"file", claimed.file},
                        {"hash", ""}});
      return new_record(std::move(list));
    });
  });
}

camshaft_status camshaft_set_plugin_checks(int32_t checks) {
  return guarded([&] {
    if ((checks & ~(CAMSHAFT_PLUGIN_GUARDS | CAMSHAFT_PLUGIN_VERIFY)) != 0)
      throw Error(ErrorCode::invalid_argument, fmt::format("there are no checks of plugins of the number {}", checks));
    set_plugin_checks({(checks & CAMSHAFT_PLUGIN_GUARDS) != 0, (checks & CAMSHAFT_PLUGIN_VERIFY) != 0});
  });
}
