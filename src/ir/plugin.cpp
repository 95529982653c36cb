#include "ir/plugin.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <map>
#include <mutex>

#include "base/error.h"

namespace camshaft {

namespace {

// What follows in the text of an attribute.
constexpr std::string_view kinds[] = {"integers", "numbers", "texts", "tensor"};

[[noreturn]] void malformed(std::string_view text) {
  throw Error(ErrorCode::invalid_argument, fmt::format("'{}' is no attribute of a plugin", text.substr(0, 40)));
}

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte b : bytes) text += fmt::format("{:02x}", static_cast<unsigned>(b));
  return text;
}

// Reads the text of an attribute from its front.
class Reader {
 public:
  explicit Reader(std::string_view text) : all_(text), rest_(text) {}

  bool done() const { return rest_.empty(); }
  std::string_view until(char end) {
    const size_t at = rest_.find(end);
    if (at == std::string_view::npos) malformed(all_);
    const std::string_view word = rest_.substr(0, at);
    rest_.remove_prefix(at + 1);
    return word;
  }
  std::string_view next(size_t length) {
    if (length > rest_.size()) malformed(all_);
    const std::string_view word = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return word;
  }
  template <class T>
  T number(char end) {
    const std::string_view word = until(end);
    T value{};
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || stop != word.data() + word.size()) malformed(all_);
    return value;
  }
  std::string_view counted() { return next(number<size_t>(':')); }

 private:
  std::string_view all_, rest_;
};

std::string counted(std::string_view text) {
  return fmt::format("{}:{}", text.size(), text);
}

Tensor decode_tensor(Reader& reader, std::string_view text) {
  const DType dtype = parse_dtype(reader.until(' '));
  Dims dims(reader.number<size_t>(' '));
  if (dims.size() > 64) malformed(text);
  for (int64_t& d : dims) d = reader.number<int64_t>(' ');
  const std::string_view digits = reader.counted();
  if (dtype == DType::string || is_container(dtype) || digits.size() != 2 * byte_size(dtype, element_count(dims)))
    malformed(text);
  Tensor tensor(dtype, dims);
  for (size_t i = 0; i < digits.size() / 2; ++i) {
    unsigned value = 0;
    const auto [stop, error] = std::from_chars(digits.data() + 2 * i, digits.data() + 2 * i + 2, value, 16);
    if (error != std::errc() || stop != digits.data() + 2 * i + 2) malformed(text);
    tensor.mutable_data()[i] = static_cast<std::byte>(value);
  }
  return tensor;
}

// Of a name: the one that models mean, and all that there were, the last one being that unless it is withdrawn.
struct Named {
  bool is_withdrawn = false;
  std::vector<std::shared_ptr<const PluginOperator>> all;
  std::shared_ptr<const PluginOperator> current() const { return is_withdrawn ? nullptr : all.back(); }
};

struct Table {
  std::mutex mutex;
  std::map<std::string, Named, std::less<>> by_name;
};

Table& table() {
  static auto* const instance = new Table;  // threads may outlive main()
  return *instance;
}

}  // namespace

std::string encode(const PluginAttribute& attribute) {
  std::string text =
      counted(attribute.name) + (attribute.single ? "=" : " ") + std::string(kinds[attribute.value.index()]) + " ";
  if (const auto* integers = std::get_if<std::vector<int64_t>>(&attribute.value))
    for (const int64_t value : *integers) text += fmt::format("{};", value);
  if (const auto* numbers = std::get_if<std::vector<double>>(&attribute.value))
    for (const double value : *numbers) text += fmt::format("{};", value);
  if (const auto* texts = std::get_if<std::vector<std::string>>(&attribute.value))
    for (const std::string& value : *texts) text += counted(value);
  if (const auto* tensor = std::get_if<Tensor>(&attribute.value)) {
    text += fmt::format("{} {} ", to_string(tensor->dtype()), tensor->dims().size());
    for (const int64_t d : tensor->dims()) text += fmt::format("{} ", d);
    text += counted(hex(tensor->span()));
  }
  return text;
}

PluginAttribute decode_attribute(std::string_view text) {
  Reader reader(text);
  PluginAttribute attribute;
  attribute.name = reader.counted();
  attribute.single = reader.next(1) == "=";
  const std::string_view kind = reader.until(' ');
  if (kind == kinds[0]) {
    std::vector<int64_t> values;
    while (!reader.done()) values.push_back(reader.number<int64_t>(';'));
    attribute.value = std::move(values);
  } else if (kind == kinds[1]) {
    std::vector<double> values;
    while (!reader.done()) values.push_back(reader.number<double>(';'));
    attribute.value = std::move(values);
  } else if (kind == kinds[2]) {
    std::vector<std::string> values;
    while (!reader.done()) values.emplace_back(reader.counted());
    attribute.value = std::move(values);
  } else if (kind == kinds[3]) {
    attribute.value = decode_tensor(reader, text);
  } else {
    malformed(text);
  }
  if (!reader.done()) malformed(text);
  return attribute;
}

std::shared_ptr<const PluginOperator> find_plugin(std::string_view full_name) {
  Table& plugins = table();
  const std::lock_guard lock(plugins.mutex);
  const auto it = plugins.by_name.find(full_name);
  return it == plugins.by_name.end() ? nullptr : it->second.current();
}

std::shared_ptr<const PluginOperator> find_plugin(std::string_view domain, std::string_view name) {
  if (domain.empty() || domain == "ai.onnx") return find_plugin(name);
  return find_plugin(fmt::format("{}::{}", domain, name));
}

std::shared_ptr<const PluginOperator> find_plugin(std::string_view full_name, std::string_view version,
                                                  std::string_view hash) {
  Table& plugins = table();
  const std::lock_guard lock(plugins.mutex);
  const auto it = plugins.by_name.find(full_name);
  if (it == plugins.by_name.end()) return nullptr;
  for (const auto& plugin : it->second.all)
    if (plugin->version == version && plugin->hash == hash) return plugin;
  return nullptr;
}

std::vector<std::shared_ptr<const PluginOperator>> loaded_plugins() {
  Table& plugins = table();
  const std::lock_guard lock(plugins.mutex);
  std::vector<std::shared_ptr<const PluginOperator>> all;
  for (const auto& [name, named] : plugins.by_name)
    if (auto plugin = named.current()) all.push_back(std::move(plugin));
  return all;
}

void add_plugin(std::shared_ptr<const PluginOperator> plugin) {
  Table& plugins = table();
  const std::lock_guard lock(plugins.mutex);
  const std::string name = plugin->full_name();
  Named& named = plugins.by_name[name];
  const auto is_same = [&](const auto& known) {
    return known->version == plugin->version && known->hash == plugin->hash;
  };
  if (named.all.empty() || named.is_withdrawn) {
    std::erase_if(named.all, is_same);  // the same code is in the new one
    named.all.push_back(std::move(plugin));
    named.is_withdrawn = false;
    return;
  }
  const PluginOperator& current = *named.all.back();
  if (is_same(named.all.back())) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("the plugin {} has the operator {} (version {}), which {} has brought already (version {}): "
                          "one process can have one of them",
                          plugin->file, name, plugin->version, current.file, current.version));
}

bool withdraw_plugin(std::string_view full_name) {
  Table& plugins = table();
  const std::lock_guard lock(plugins.mutex);
  const auto it = plugins.by_name.find(full_name);
  if (it == plugins.by_name.end() || it->second.is_withdrawn) return false;
  return it->second.is_withdrawn = true;
}

}  // namespace camshaft
