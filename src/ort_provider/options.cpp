#include "ort_provider/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "base/hash.h"
#include "base/mapped_file.h"
#include "base/similar_names.h"
#include "camshaft/camshaft.h"
#include "engine/profile.h"
#include "ort_provider/shape_texts.h"
#include "ort_provider/tensorrt_options.h"
#include "runtime/backends.h"

namespace camshaft::ort_provider {

namespace {

// Beside those of builds.
constexpr const char* own_names[] = {
    "engine-cache",      "engine-cache-path", "engine-cache-prefix", "engine-cache-size", "engine-cache-weightless",
    "min-subgraph-size", "exclude-operators", "min-shapes",          "opt-shapes",        "max-shapes"};
// One engine of a whole model is what these are about.
constexpr const char* not_of_sessions[] = {"lora",       "refit", "strip-weights", "debug-tensors", "stop-after-pass",
                                           "write-lock", "lock"};

template <class List>
bool contains(const List& list, const std::string& name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

std::string with_dashes(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> items(1);
  for (const char c : text) {
    if (c == ',') {
      items.emplace_back();
    } else if (c != ' ' || !items.back().empty()) {
      items.back() += c;
    }
  }
  std::erase(items, "");
  return items;
}

void set_build_option(const std::string& provider, const std::string& name, const std::string& value,
                      api::Settings& settings) {
  if (contains(not_of_sessions, name))
    throw Error(ErrorCode::unsupported,
                fmt::format("the option '{}' is for engines of whole models, not for ONNX Runtime's sessions", name));
  std::vector<std::string> names;
  for (const api::Option& option : api::options_of(CAMSHAFT_BUILD))
    if (!contains(not_of_sessions, std::string(option.name))) names.emplace_back(option.name);
  names.insert(names.end(), std::begin(own_names), std::end(own_names));
  if (!contains(names, name))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} has no option '{}'{}", provider, name, what_was_meant(name, names)));
  const api::Option& option = api::find_option(CAMSHAFT_BUILD, name);
  if (option.kind == api::OptionKind::boolean) {
    option.set(settings, parse_switch(name, value));
  } else if (option.kind == api::OptionKind::list) {
    for (const std::string& item : split_list(value)) option.set(settings, item);
  } else {
    option.set(settings, api::parse_value(option, value));
  }
}

uint64_t parse_count(const std::string& name, const std::string& value) {
  uint64_t count = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), count);
  if (error != std::errc() || end != value.data() + value.size())
    throw Error(ErrorCode::invalid_argument, fmt::format("the option '{}' takes a number, not '{}'", name, value));
  return count;
}

/// An address as programs write it: a decimal number, or a hexadecimal one behind 0x.
void* parse_address(const std::string& name, const std::string& value) {
  const bool is_hexadecimal = value.starts_with("0x");
  const char* const begin = value.data() + (is_hexadecimal ? 2 : 0);
  uintptr_t address = 0;
  const auto [end, error] = std::from_chars(begin, value.data() + value.size(), address, is_hexadecimal ? 16 : 10);
  if (error != std::errc() || end != value.data() + value.size())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the option '{}' takes a stream's address as a number, not '{}'", name, value));
  return reinterpret_cast<void*>(address);
}

/// What a program that was written for TensorRT's provider means by its number of a GPU: that one, or, on a machine
/// without, the CPU.
void choose_gpu(const std::string& number, ProviderOptions& options) {
  const std::string device = fmt::format("cuda:{}", parse_count("device_id", number));
  try {
    find_backend(device);
    options.settings.build.device = device;
  } catch (const Error& e) {
    options.unused.push_back(fmt::format("the option 'device_id' has no effect, the CPU computes: {}", e.what()));
  }
}

std::string hash_of_file(const std::string& path) {
  return path.empty() ? "" : to_hex(hash128(MappedFile::open(path)->bytes()));
}

}  // namespace

ProviderOptions parse_options(const std::map<std::string, std::string>& entries, const std::string& provider,
                              DeviceId memory) {
  std::string prefix = fmt::format("ep.{}.", provider);
  std::transform(prefix.begin(), prefix.end(), prefix.begin(), [](unsigned char c) { return std::tolower(c); });
  std::map<std::string, std::string> own, tensorrt;
  for (const auto& [key, value] : entries) {
    if (!key.starts_with(prefix) || value.empty()) continue;
    const std::string name = key.substr(prefix.size());
    if (is_tensorrt_option(name)) {
      tensorrt[name] = value;
    } else {
      own[with_dashes(name)] = value;
    }
  }
  ProviderOptions options;
  options.memory = memory;
  options.settings.build.device = to_string(memory);
  TranslatedOptions translated = translate_tensorrt_options(tensorrt);
  options.unused = std::move(translated.unused);
  own.merge(translated.options);  // what is given by our name goes first
  const auto take = [&](const char* name) {
    const auto it = own.find(name);
    if (it == own.end()) return std::string();
    std::string value = it->second;
    own.erase(it);
    return value;
  };
  const std::string smallest = take("min-shapes"), optimum = take("opt-shapes"), largest = take("max-shapes");
  options.settings.build.profiles = parse_profiles(smallest, optimum, largest);
  const std::string cache = take("engine-cache"), folder = take("engine-cache-path");
  if (!cache.empty() && parse_switch("engine-cache", cache)) {
    options.cache_folder = folder.empty() ? user_cache_folder() : folder;
    if (options.cache_folder.empty()) options.cache_folder = ".";
  }
  if (const std::string name = take("engine-cache-prefix"); !name.empty()) {
    if (name.find('/') != std::string::npos)
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("the option 'engine-cache-prefix' is what names of files begin with, not a path: '{}'", name));
    options.cache_prefix = name;
  }
  if (const std::string bytes = take("engine-cache-size"); !bytes.empty())
    options.cache_bytes = parse_count("engine-cache-size", bytes);
  if (const std::string weightless = take("engine-cache-weightless");
      !weightless.empty() && parse_switch("engine-cache-weightless", weightless)) {
    options.cache_is_weightless = !options.cache_folder.empty();
    if (!options.cache_is_weightless)
      options.unused.push_back("the option 'engine-cache-weightless' has no effect without 'engine-cache'");
  }
  if (const std::string count = take("min-subgraph-size"); !count.empty())
    options.least_nodes = parse_count("min-subgraph-size", count);
  for (const std::string& op : split_list(take("exclude-operators"))) options.excluded.insert(op);
  if (!translated.gpu.empty() && !own.contains("device")) choose_gpu(translated.gpu, options);
  for (const auto& [name, value] : own) set_build_option(provider, name, value, options.settings);
  const std::string& device = options.settings.build.device;
  find_backend(device);  // or else nodes would be left to other providers, one by one
  if (memory.is_gpu() && parse_device_id(device) != memory)
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("the session's tensors are on {}, the provider's option asks for '{}': choose the GPU by the "
                    "session's device (camshaft.ort.devices())",
                    to_string(memory), device));
  if (translated.stream && device == "cpu") {
    options.unused.push_back("the option 'user_compute_stream' has no effect: the CPU computes");
  } else if (translated.stream) {
    options.stream = parse_address(stream_option, *translated.stream);
  }
  options.settings.context.threads = options.settings.build.threads;
  options.settings.build.strip_weights = options.cache_is_weightless;

  const auto entry = [&](const char* name) {
    const auto it = entries.find(name);
    return it == entries.end() ? std::string() : it->second;
  };
  options.makes_context_nodes = entry("ep.context_enable") == "1";
  options.embeds_context = entry("ep.context_embed_mode") == "1";
  options.context_path = entry("ep.context_file_path");
  return options;
}

std::optional<void*> parse_stream_options(const std::map<std::string, std::string>& options) {
  std::optional<void*> stream;
  for (const auto& [name, value] : options) {
    if (name != stream_option)
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("a stream has no option '{}': there is '{}', the address of one of yours", name, stream_option));
    stream = parse_address(name, value);
  }
  return stream;
}

std::string build_key(const ProviderOptions& options) {
  std::string key;
  for (const api::Option& option : api::options_of(CAMSHAFT_BUILD)) {
    if (option.name == "timing-cache" || option.name == "calibration") continue;  // what is in the file counts
    key += fmt::format("{}={}\n", option.name, option.get(options.settings).dump());
  }
  key += "calibration=" + hash_of_file(options.settings.build.calibration) + "\n";
  for (const Profile& profile : options.settings.build.profiles)
    for (const auto& [name, range] : profile.inputs)
      for (const auto* dims : {&range.min, &range.opt, &range.max}) {
        key += name;
        for (const int64_t d : *dims) key += fmt::format(" {}", d);
        key += "\n";
      }
  return key;
}

}  // namespace camshaft::ort_provider
