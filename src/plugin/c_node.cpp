#include "plugin/c_node.h"

#include <fmt/format.h>

namespace camshaft::plugin {

namespace {

constexpr int32_t kinds[] = {CAMSHAFT_PLUGIN_INTEGERS, CAMSHAFT_PLUGIN_NUMBERS, CAMSHAFT_PLUGIN_TEXTS,
                             CAMSHAFT_PLUGIN_TENSOR};

}  // namespace

const PluginAttribute* NodeView::find(const char* name) const {
  for (const PluginAttribute& attribute : node_.attributes)
    if (name && attribute.name == name) return &attribute;
  return nullptr;
}

template <class T>
const std::vector<T>* NodeView::list(const char* name, const char* kind) {
  const PluginAttribute* attribute = find(name);
  if (!attribute) return nullptr;
  const auto* values = std::get_if<std::vector<T>>(&attribute->value);
  if (!values) note(fmt::format("the attribute '{}' must be of {}", name, kind));
  return values;
}

NodeView::NodeView(const PluginNode& node) : node_(node) {
  c_.view = this;
  camshaft_plugin_node& c = c_.node;
  c.size = sizeof c;
  c.attribute_count = node.attributes.size();
  if (node.state) {
    c.state = node.state->data();
    c.state_bytes = node.state->size();
  }
  c.fail = [](const camshaft_plugin_node* self, const char* message) -> int32_t {
    of(self).note(message && *message ? message : "it failed");
    return 1;
  };
  c.attribute_name = [](const camshaft_plugin_node* self, size_t i) -> const char* {
    const auto& attributes = of(self).node_.attributes;
    return i < attributes.size() ? attributes[i].name.c_str() : nullptr;
  };
  c.attribute_kind = [](const camshaft_plugin_node* self, const char* name) -> int32_t {
    const PluginAttribute* attribute = of(self).find(name);
    return attribute ? kinds[attribute->value.index()] : CAMSHAFT_PLUGIN_NONE;
  };
  c.integers = [](const camshaft_plugin_node* self, const char* name, const int64_t** values) -> size_t {
    const auto* list = of(self).list<int64_t>(name, "integers");
    *values = list ? list->data() : nullptr;
    return list ? list->size() : 0;
  };
  c.numbers = [](const camshaft_plugin_node* self, const char* name, const double** values) -> size_t {
    const auto* list = of(self).list<double>(name, "floats");
    *values = list ? list->data() : nullptr;
    return list ? list->size() : 0;
  };
  c.texts = [](const camshaft_plugin_node* self, const char* name, size_t i, const char** text,
               size_t* length) -> size_t {
    const auto* list = of(self).list<std::string>(name, "strings");
    const bool is_there = list && i < list->size();
    *text = is_there ? (*list)[i].c_str() : nullptr;
    if (length) *length = is_there ? (*list)[i].size() : 0;
    return list ? list->size() : 0;
  };
  c.tensor = [](const camshaft_plugin_node* self, const char* name) -> const camshaft_plugin_tensor* {
    NodeView& view = of(self);
    const PluginAttribute* attribute = view.find(name);
    if (!attribute) return nullptr;
    const auto* tensor = std::get_if<Tensor>(&attribute->value);
    if (!tensor) {
      view.note(fmt::format("the attribute '{}' must be a tensor", name));
      return nullptr;
    }
    view.tensors_.push_back({static_cast<camshaft_dtype>(tensor->dtype()), tensor->dims().size(), tensor->dims().data(),
                             const_cast<std::byte*>(tensor->data()), tensor->bytes()});
    return &view.tensors_.back();
  };
}

}  // namespace camshaft::plugin
