#include "plugin/c_shapes.h"

#include <fmt/format.h>

#include "base/error.h"

namespace camshaft::plugin {

namespace {

Dim combined(int32_t operation, const Dim& a, const Dim& b) {
  switch (operation) {
    case CAMSHAFT_PLUGIN_ADD:
      return a + b;
    case CAMSHAFT_PLUGIN_SUBTRACT:
      return a - b;
    case CAMSHAFT_PLUGIN_MULTIPLY:
      return a * b;
    case CAMSHAFT_PLUGIN_FLOOR_DIVIDE:
      return floor_div(a, b);
    case CAMSHAFT_PLUGIN_CEIL_DIVIDE:
      return ceil_div(a, b);
    case CAMSHAFT_PLUGIN_MODULO:
      return mod(a, b);
    case CAMSHAFT_PLUGIN_MIN:
      return min(a, b);
    case CAMSHAFT_PLUGIN_MAX:
      return max(a, b);
    case CAMSHAFT_PLUGIN_BROADCAST:
      return broadcast(a, b);
    default:
      throw Error(ErrorCode::invalid_argument, fmt::format("there is no operation {} on sizes", operation));
  }
}

}  // namespace

const camshaft_plugin_dim* ShapesView::keep(Dim dim) {
  dims_.push_back(std::move(dim));
  return reinterpret_cast<const camshaft_plugin_dim*>(&dims_.back());
}

template <class Make>
const camshaft_plugin_dim* ShapesView::made(const Make& make) {
  try {
    return keep(make());
  } catch (const std::exception& e) {
    note(e.what());
    return nullptr;
  }
}

int32_t ShapesView::set_output(size_t output, camshaft_dtype dtype, size_t rank,
                               const camshaft_plugin_dim* const* dims) {
  const auto is_of_tensors = [](camshaft_dtype d) { return d >= 0 && d <= CAMSHAFT_U2 && d != CAMSHAFT_STRING; };
  if (output >= results_.size()) {
    note(fmt::format("its shape rule sets output {}; the node has {}", output, results_.size()));
  } else if (!is_of_tensors(dtype)) {
    note(fmt::format("its shape rule gives output {} the type {}, which plugins cannot give", output, dtype));
  } else if (rank > 64 || (rank > 0 && !dims)) {
    note(fmt::format("its shape rule gives output {} {} axes", output, rank));
  } else {
    TensorType type{static_cast<DType>(dtype), {}};
    for (size_t axis = 0; axis < rank; ++axis) {
      if (!dims[axis]) {
        note(fmt::format("its shape rule gives output {} no size along axis {}", output, axis));
        return 1;
      }
      const Dim& size = dim_of(dims[axis]);
      if (size.is_constant() && size.value() < 0) {
        note(fmt::format("its shape rule gives output {} the size {} along axis {}", output, size.value(), axis));
        return 1;
      }
      type.shape.push_back(size);
    }
    results_[output] = std::move(type);
    return 0;
  }
  return 1;
}

std::vector<TensorType> ShapesView::results(const std::string& who) const {
  std::vector<TensorType> types;
  for (size_t o = 0; o < results_.size(); ++o) {
    if (!results_[o])
      throw Error(ErrorCode::invalid_argument, fmt::format("{}: its shape rule does not set output {}", who, o));
    types.push_back(*results_[o]);
  }
  return types;
}

ShapesView::ShapesView(const InferContext& context) : context_(context), results_(context.output_count()) {
  c_.view = this;
  camshaft_plugin_shapes& c = c_.shapes;
  c.size = sizeof c;
  c.input_count = context.input_count();
  c.output_count = context.output_count();
  c.fail = [](camshaft_plugin_shapes* self, const char* message) -> int32_t {
    of(self).note(message && *message ? message : "it failed");
    return 1;
  };
  c.dtype = [](camshaft_plugin_shapes* self, size_t i) -> camshaft_dtype {
    return of(self).has(i) ? static_cast<camshaft_dtype>(of(self).context_.dtype(i)) : -1;
  };
  c.rank = [](camshaft_plugin_shapes* self, size_t i) -> size_t {
    return of(self).has(i) ? of(self).context_.shape(i).size() : 0;
  };
  c.dim = [](camshaft_plugin_shapes* self, size_t i, size_t axis) -> const camshaft_plugin_dim* {
    ShapesView& view = of(self);
    if (!view.has(i) || axis >= view.context_.shape(i).size()) {
      view.note(fmt::format("operand {} has no axis {}", i, axis));
      return nullptr;
    }
    return view.keep(view.context_.shape(i)[axis]);
  };
  c.values = [](camshaft_plugin_shapes* self, size_t i, const int64_t** values) -> size_t {
    ShapesView& view = of(self);
    *values = nullptr;
    const auto content = view.has(i) ? view.context_.content(i) : std::nullopt;
    if (!content) return 0;
    std::vector<int64_t> numbers;
    for (const Dim& d : *content) {
      if (!d.is_constant()) return 0;
      numbers.push_back(d.value());
    }
    view.values_.push_back(std::move(numbers));
    *values = view.values_.back().data();
    return view.values_.back().size();
  };
  c.constant = [](camshaft_plugin_shapes* self, int64_t value) { return of(self).keep(Dim(value)); };
  c.symbol = [](camshaft_plugin_shapes* self, size_t output, size_t axis) {
    return of(self).made([&] { return of(self).context_.fresh(output, axis); });
  };
  c.combine = [](camshaft_plugin_shapes* self, int32_t operation, const camshaft_plugin_dim* a,
                 const camshaft_plugin_dim* b) -> const camshaft_plugin_dim* {
    if (!a || !b) return nullptr;
    return of(self).made([&] { return combined(operation, dim_of(a), dim_of(b)); });
  };
  c.value = [](camshaft_plugin_shapes*, const camshaft_plugin_dim* dim, int64_t* value) -> int32_t {
    if (!dim || !dim_of(dim).is_constant()) return 0;
    *value = dim_of(dim).value();
    return 1;
  };
  c.text = [](camshaft_plugin_shapes* self, const camshaft_plugin_dim* dim) -> const char* {
    if (!dim) return "";
    of(self).texts_.push_back(dim_of(dim).str());
    return of(self).texts_.back().c_str();
  };
  c.parse = [](camshaft_plugin_shapes* self, const char* text) {
    return of(self).made([&] { return Dim::parse(text ? text : ""); });
  };
  c.set_output = [](camshaft_plugin_shapes* self, size_t output, camshaft_dtype dtype, size_t rank,
                    const camshaft_plugin_dim* const* dims) -> int32_t {
    return of(self).set_output(output, dtype, rank, dims);
  };
}

}  // namespace camshaft::plugin
