// Plugins in C++: camshaft_plugin.h with less to write. Needs no library.
//
//   struct Double : camshaft::plugin::Operator {
//     static constexpr const char *domain = "example", *name = "Double", *version = "1";
//     explicit Double(const camshaft::plugin::Node&) {}
//     void infer(camshaft::plugin::Shapes& s) const { s.output(0, s.dtype(0), s.dims(0)); }
//     void run(const camshaft::plugin::Run& r) const;
//   };
//   CAMSHAFT_PLUGIN(Double)
//
// An operator may also have
//   static constexpr camshaft::plugin::Types types[] = {…};          // of its operands, the last for further ones
//   static constexpr int32_t input_layouts[] = {CAMSHAFT_PLUGIN_CHANNELS_LAST};   // orders of their axes, likewise
//   static constexpr int32_t output_layouts[] = {…};                 // and of its results'
//   static constexpr size_t tactics = 2;                             // Run::tactic() says which one runs
//   bool supports(const Run&) const; double cost(const Run&) const; size_t workspace(const Run&) const;
//   void reference(const Run&) const;                                // what engines are verified against
//   std::string state() const;                                       // stored in engines, Node::state() has it then
//   void run_cuda(const Cuda&) const;                                // on a GPU; without run() on no CPU
//   static constexpr const char* cuda_text = "extern \"C\" __global__ void k(float* y, int n) {…}";   // of its kernels
//   static constexpr unsigned char cuda_module[] = {…};              // instead of it: a cubin, a fat binary or PTX
//   static constexpr bool cuda_is_recorded = false;                  // where it does not do the same each time
//   void compile(Kernels&) const;                                    // instead of run_cuda: kernels that engines keep
// Whatever these throw becomes an error that names the operator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "camshaft/camshaft_plugin.h"

namespace camshaft::plugin {

/// A set of element types.
struct Types {
  uint64_t bits = 0;
  constexpr Types(std::initializer_list<camshaft_dtype> dtypes) {
    for (const camshaft_dtype dtype : dtypes) bits |= uint64_t{1} << dtype;
  }
};

/// Attributes of an ONNX node.
class Node {
 public:
  explicit Node(const camshaft_plugin_node* node) : node_(node) {}
  bool has(const char* name) const { return node_->attribute_kind(node_, name) != CAMSHAFT_PLUGIN_NONE; }
  int64_t integer(const char* name, int64_t otherwise) const {
    const int64_t* values = nullptr;
    return node_->integers(node_, name, &values) == 0 ? otherwise : values[0];
  }
  double number(const char* name, double otherwise) const {
    const double* values = nullptr;
    return node_->numbers(node_, name, &values) == 0 ? otherwise : values[0];
  }
  std::string text(const char* name, const std::string& otherwise) const {
    const char* text = nullptr;
    size_t length = 0;
    return node_->texts(node_, name, 0, &text, &length) == 0 ? otherwise : std::string(text, length);
  }
  std::vector<int64_t> integers(const char* name) const {
    const int64_t* values = nullptr;
    const size_t count = node_->integers(node_, name, &values);
    return {values, values + count};
  }
  std::vector<double> numbers(const char* name) const {
    const double* values = nullptr;
    const size_t count = node_->numbers(node_, name, &values);
    return {values, values + count};
  }
  /// Null when there is none.
  const camshaft_plugin_tensor* tensor(const char* name) const { return node_->tensor(node_, name); }
  /// What state() gave when the engine was built; empty for a node of a model.
  std::string_view state() const { return {static_cast<const char*>(node_->state), node_->state_bytes}; }

 private:
  const camshaft_plugin_node* node_;
};

/// A size, maybe of symbols. Valid during the shape rule alone.
class Dim {
 public:
  Dim(camshaft_plugin_shapes* shapes, const camshaft_plugin_dim* dim) : shapes_(shapes), dim_(dim) {
    if (dim == nullptr) throw std::runtime_error("a size that cannot be");
  }
  const camshaft_plugin_dim* handle() const { return dim_; }
  /// Whether it is a number, and which one.
  bool is(int64_t* value) const { return shapes_->value(shapes_, dim_, value) != 0; }
  std::string str() const { return shapes_->text(shapes_, dim_); }

  friend Dim operator+(const Dim& a, const Dim& b) { return a.with(CAMSHAFT_PLUGIN_ADD, b); }
  friend Dim operator-(const Dim& a, const Dim& b) { return a.with(CAMSHAFT_PLUGIN_SUBTRACT, b); }
  friend Dim operator*(const Dim& a, const Dim& b) { return a.with(CAMSHAFT_PLUGIN_MULTIPLY, b); }
  /// Rounded down; ceil_div rounds up.
  friend Dim operator/(const Dim& a, const Dim& b) { return a.with(CAMSHAFT_PLUGIN_FLOOR_DIVIDE, b); }
  friend Dim operator%(const Dim& a, const Dim& b) { return a.with(CAMSHAFT_PLUGIN_MODULO, b); }
  friend Dim operator+(const Dim& a, int64_t b) { return a + a.number(b); }
  friend Dim operator-(const Dim& a, int64_t b) { return a - a.number(b); }
  friend Dim operator*(const Dim& a, int64_t b) { return a * a.number(b); }
  friend Dim operator/(const Dim& a, int64_t b) { return a / a.number(b); }
  friend Dim operator%(const Dim& a, int64_t b) { return a % a.number(b); }
  friend Dim ceil_div(const Dim& a, const Dim& b) { return a.with(CAMSHAFT_PLUGIN_CEIL_DIVIDE, b); }
  friend Dim min(const Dim& a, const Dim& b) { return a.with(CAMSHAFT_PLUGIN_MIN, b); }
  friend Dim max(const Dim& a, const Dim& b) { return a.with(CAMSHAFT_PLUGIN_MAX, b); }
  friend Dim broadcast(const Dim& a, const Dim& b) { return a.with(CAMSHAFT_PLUGIN_BROADCAST, b); }

 private:
  Dim with(int32_t operation, const Dim& b) const {
    return {shapes_, shapes_->combine(shapes_, operation, dim_, b.dim_)};
  }
  Dim number(int64_t value) const { return {shapes_, shapes_->constant(shapes_, value)}; }

  camshaft_plugin_shapes* shapes_;
  const camshaft_plugin_dim* dim_;
};

/// What a shape rule sees and gives. Throw std::runtime_error for operands that the operator does not take.
class Shapes {
 public:
  explicit Shapes(camshaft_plugin_shapes* shapes) : shapes_(shapes) {}
  size_t inputs() const { return shapes_->input_count; }
  size_t outputs() const { return shapes_->output_count; }
  bool has(size_t input) const { return shapes_->dtype(shapes_, input) >= 0; }
  camshaft_dtype dtype(size_t input) const { return shapes_->dtype(shapes_, input); }
  size_t rank(size_t input) const { return shapes_->rank(shapes_, input); }
  Dim dim(size_t input, size_t axis) const { return {shapes_, shapes_->dim(shapes_, input, axis)}; }
  std::vector<Dim> dims(size_t input) const {
    std::vector<Dim> all;
    for (size_t axis = 0; axis < rank(input); ++axis) all.push_back(dim(input, axis));
    return all;
  }
  /// The elements of a small operand of integers that is known before running; else empty.
  std::vector<int64_t> values(size_t input) const {
    const int64_t* values = nullptr;
    const size_t count = shapes_->values(shapes_, input, &values);
    return {values, values + count};
  }
  Dim constant(int64_t value) const { return {shapes_, shapes_->constant(shapes_, value)}; }
  Dim symbol(size_t output, size_t axis) const { return {shapes_, shapes_->symbol(shapes_, output, axis)}; }
  void output(size_t index, camshaft_dtype dtype, const std::vector<Dim>& dims) {
    std::vector<const camshaft_plugin_dim*> handles;
    for (const Dim& dim : dims) handles.push_back(dim.handle());
    shapes_->set_output(shapes_, index, dtype, handles.size(), handles.data());
  }

 private:
  camshaft_plugin_shapes* shapes_;
};

/// An operand.
class View {
 public:
  explicit View(const camshaft_plugin_tensor& tensor) : tensor_(&tensor) {}
  camshaft_dtype dtype() const { return tensor_->dtype; }
  size_t rank() const { return tensor_->rank; }
  int64_t dim(size_t axis) const { return tensor_->dims[axis]; }
  /// Elements.
  int64_t size() const {
    int64_t count = 1;
    for (size_t axis = 0; axis < rank(); ++axis) count *= dim(axis);
    return count;
  }
  template <class T>
  T* data() const {
    return static_cast<T*>(tensor_->data);
  }

 private:
  const camshaft_plugin_tensor* tensor_;
};

/// One run, or the sizes of one.
class Run {
 public:
  explicit Run(const camshaft_plugin_run* run) : run_(run) {}
  size_t inputs() const { return run_->input_count; }
  bool has(size_t input) const { return input < run_->input_count && run_->inputs[input] != nullptr; }
  View input(size_t index) const {
    if (!has(index)) throw std::out_of_range("operand " + std::to_string(index) + " is not there");
    return View(*run_->inputs[index]);
  }
  View output(size_t index) const {
    if (index >= run_->output_count) throw std::out_of_range("result " + std::to_string(index) + " is not there");
    return View(*run_->outputs[index]);
  }
  /// Memory for an output whose size was a symbol.
  template <class T>
  T* resize_output(size_t index, const std::vector<int64_t>& dims) const {
    void* data = run_->resize_output(run_, index, dims.size(), dims.data());
    if (data == nullptr) throw std::runtime_error("an output cannot have the shape that it is to get");
    return static_cast<T*>(data);
  }
  /// Whether the sizes, or the run, are those of a GPU.
  bool is_cuda() const { return run_->cuda != nullptr; }
  void* workspace() const { return run_->workspace; }
  size_t tactic() const { return run_->tactic; }
  int threads() const { return run_->threads; }
  bool is_cancelled() const { return run_->is_cancelled(run_) != 0; }
  /// Calls body(begin, end) for parts of [0, count), at multiples of `grain`, on all threads of the run.
  template <class Body>
  void parallel_for(int64_t count, int64_t grain, const Body& body) const {
    struct Call {
      const Body& body;
      std::mutex mutex;
      std::exception_ptr thrown;
    } call{body, {}, {}};
    run_->parallel_for(
        run_, count, grain,
        [](void* user, int64_t begin, int64_t end) {
          Call& of = *static_cast<Call*>(user);
          try {
            of.body(begin, end);
          } catch (...) {
            const std::lock_guard lock(of.mutex);
            of.thrown = std::current_exception();
          }
        },
        &call);
    if (call.thrown) std::rethrow_exception(call.thrown);
  }

 protected:
  const camshaft_plugin_run* run_;
};

/// Blocks and threads of a launch, and its dynamic shared memory.
struct Grid {
  uint32_t blocks[3] = {1, 1, 1};
  uint32_t threads[3] = {1, 1, 1};
  uint32_t shared_bytes = 0;
};

/// One run on a GPU: operands and workspace are in its memory.
class Cuda : public Run {
 public:
  explicit Cuda(const camshaft_plugin_run* run) : Run(run) {}
  /// A CUstream, as which a cudaStream_t is the same.
  void* stream() const { return run_->cuda->stream; }
  int capability() const { return run_->cuda->capability; }
  int multiprocessors() const { return run_->cuda->multiprocessors; }
  /// Puts a kernel of cuda_text or cuda_module into the stream. The arguments are of the very types of its parameters.
  template <class... Arguments>
  void launch(const char* kernel, const Grid& grid, const Arguments&... arguments) const {
    void* const addresses[] = {const_cast<void*>(static_cast<const void*>(&arguments))...};
    if (run_->cuda->launch(run_, kernel, grid.blocks, grid.threads, grid.shared_bytes, addresses) != 0)
      throw std::runtime_error(std::string("the kernel ") + kernel + " cannot be launched");
  }
  template <class... Arguments>
  void launch(const char* kernel, int64_t blocks, int64_t threads, const Arguments&... arguments) const {
    launch(kernel, Grid{{static_cast<uint32_t>(blocks), 1, 1}, {static_cast<uint32_t>(threads), 1, 1}}, arguments...);
  }
};

/// What a kernel that is compiled ahead of time gets for one of its parameters.
class Argument {
 public:
  static Argument input(size_t index) { return {CAMSHAFT_PLUGIN_INPUT, index, nullptr, 0}; }
  static Argument output(size_t index) { return {CAMSHAFT_PLUGIN_OUTPUT, index, nullptr, 0}; }
  /// A size, as a signed integer of the type.
  template <class Integer>
  static Argument size(const Dim& dim) {
    return {CAMSHAFT_PLUGIN_SIZE, 0, dim.handle(), sizeof(Integer)};
  }
  template <class Value>
  static Argument value(const Value& value) {
    Argument made{CAMSHAFT_PLUGIN_BYTES, 0, nullptr, sizeof value};
    made.bytes_.assign(reinterpret_cast<const char*>(&value), sizeof value);
    return made;
  }
  camshaft_plugin_argument get() const { return {kind_, index_, dim_, bytes_.data(), size_}; }

 private:
  Argument(int32_t kind, size_t index, const camshaft_plugin_dim* dim, size_t size)
      : kind_(kind), index_(index), dim_(dim), size_(size) {}
  int32_t kind_;
  size_t index_;
  const camshaft_plugin_dim* dim_;
  size_t size_;
  std::string bytes_;
};

/// Kernels for GPUs that are compiled ahead of time, with launches of the sizes that shapes() has: engines keep them,
/// and need no plugin. An operator that adds no tactic is run as it is.
class Kernels {
 public:
  explicit Kernels(camshaft_plugin_kernels* kernels) : kernels_(kernels) {}
  Shapes shapes() const { return Shapes(kernels_->shapes); }
  /// Begins one more tactic, which the build measures, with kernels as CUDA C++, or as a cubin, a fat binary or PTX.
  void text(const char* cuda) { check(kernels_->add_tactic(kernels_, cuda, nullptr, 0)); }
  void module(const void* data, size_t bytes) { check(kernels_->add_tactic(kernels_, nullptr, data, bytes)); }
  /// Blocks and threads along up to three axes.
  void launch(const char* kernel, const std::vector<Dim>& blocks, const std::vector<Dim>& threads,
              const std::vector<Argument>& arguments, int64_t shared_bytes = 0) {
    const Dim one = shapes().constant(1), shared = shapes().constant(shared_bytes);
    const camshaft_plugin_dim *grid[] = {one.handle(), one.handle(), one.handle()},
                              *block[] = {grid[0], grid[0], grid[0]};
    for (size_t axis = 0; axis < blocks.size() && axis < 3; ++axis) grid[axis] = blocks[axis].handle();
    for (size_t axis = 0; axis < threads.size() && axis < 3; ++axis) block[axis] = threads[axis].handle();
    std::vector<camshaft_plugin_argument> given;
    for (const Argument& argument : arguments) given.push_back(argument.get());
    check(kernels_->add_launch(kernels_, kernel, grid, block, shared.handle(), given.size(), given.data()));
  }
  /// The output begins as a copy of the input, and stands for it among the arguments.
  void alias(size_t output, size_t input) { check(kernels_->alias(kernels_, output, input)); }

 private:
  static void check(int32_t status) {
    if (status != 0) throw std::runtime_error("a kernel cannot be kept");  // the message before says why
  }
  camshaft_plugin_kernels* kernels_;
};

/// What operators derive from, so that their members are told apart from those that they lack.
struct Operator {};

namespace detail {

/// Calls `call`; what it throws is given to `fail`.
template <class Context, class Call>
int32_t guarded(Context* context, const Call& call) noexcept {
  try {
    call();
    return 0;
  } catch (const std::exception& e) {
    return context->fail(context, e.what()), 1;
  } catch (...) {
    return context->fail(context, "it threw something that is no std::exception"), 1;
  }
}

template <class T>
struct Held {
  T op;
  std::string state;
};

/// The table of functions of an operator.
template <class T>
camshaft_plugin_operator table() {
  camshaft_plugin_operator table = {};
  table.size = sizeof table;
  table.domain = T::domain;
  table.name = T::name;
  table.version = T::version;
  if constexpr (requires { T::expression; }) {
    table.expression = T::expression;
  } else {
    table.create = [](void*, const camshaft_plugin_node* node, void** instance) -> int32_t {
      return guarded(node, [&] { *instance = new Held<T>{T(Node(node)), {}}; });
    };
    table.destroy = [](void* instance) { delete static_cast<Held<T>*>(instance); };
    table.infer = [](void* instance, camshaft_plugin_shapes* shapes) -> int32_t {
      return guarded(shapes, [&] {
        Shapes context(shapes);
        static_cast<Held<T>*>(instance)->op.infer(context);
      });
    };
    if constexpr (requires(const T& op, const Run& run) { op.run(run); })
      table.enqueue = [](void* instance, const camshaft_plugin_run* run) -> int32_t {
        return guarded(run, [&] { static_cast<Held<T>*>(instance)->op.run(Run(run)); });
      };
    if constexpr (requires(const T& op, const Cuda& run) { op.run_cuda(run); })
      table.enqueue_cuda = [](void* instance, const camshaft_plugin_run* run) -> int32_t {
        return guarded(run, [&] { static_cast<Held<T>*>(instance)->op.run_cuda(Cuda(run)); });
      };
    if constexpr (requires(const T& op, Kernels& kernels) { op.compile(kernels); })
      table.compile = [](void* instance, camshaft_plugin_kernels* kernels) -> int32_t {
        return guarded(kernels, [&] {
          Kernels made(kernels);
          static_cast<Held<T>*>(instance)->op.compile(made);
        });
      };
    if constexpr (requires { T::cuda_text; }) table.cuda_text = T::cuda_text;
    if constexpr (requires { T::cuda_module; }) {
      table.cuda_module = std::data(T::cuda_module);
      table.cuda_module_bytes = std::size(T::cuda_module);
      static_assert(sizeof(*std::data(T::cuda_module)) == 1, "cuda_module is an array of bytes");
    }
    if constexpr (requires { T::cuda_is_recorded; }) table.cuda_is_not_recorded = T::cuda_is_recorded ? 0 : 1;
    if constexpr (requires { T::types; }) {
      static constexpr auto bits = [] {
        struct {
          uint64_t of[sizeof(T::types) / sizeof(Types)];
        } all{};
        for (size_t i = 0; i < sizeof(T::types) / sizeof(Types); ++i) all.of[i] = T::types[i].bits;
        return all;
      }();
      table.types = bits.of;
      table.type_count = sizeof(T::types) / sizeof(Types);
    }
    if constexpr (requires { T::input_layouts; }) {
      table.input_layouts = std::data(T::input_layouts);
      table.input_layout_count = std::size(T::input_layouts);
    }
    if constexpr (requires { T::output_layouts; }) {
      table.output_layouts = std::data(T::output_layouts);
      table.output_layout_count = std::size(T::output_layouts);
    }
    if constexpr (requires { T::tactics; }) table.tactic_count = T::tactics;
    if constexpr (requires(const T& op, const Run& run) { op.supports(run); })
      table.supports = [](void* instance, const camshaft_plugin_run* run) -> int32_t {
        bool supported = false;
        return guarded(run, [&] { supported = static_cast<Held<T>*>(instance)->op.supports(Run(run)); }) == 0 &&
               supported;
      };
    if constexpr (requires(const T& op, const Run& run) { op.cost(run); })
      table.cost = [](void* instance, const camshaft_plugin_run* run) -> double {
        double seconds = -1;
        guarded(run, [&] { seconds = static_cast<Held<T>*>(instance)->op.cost(Run(run)); });
        return seconds;
      };
    if constexpr (requires(const T& op, const Run& run) { op.workspace(run); })
      table.workspace = [](void* instance, const camshaft_plugin_run* run) -> size_t {
        size_t bytes = 0;
        guarded(run, [&] { bytes = static_cast<Held<T>*>(instance)->op.workspace(Run(run)); });
        return bytes;
      };
    if constexpr (requires(const T& op, const Run& run) { op.reference(run); })
      table.reference = [](void* instance, const camshaft_plugin_run* run) -> int32_t {
        return guarded(run, [&] { static_cast<Held<T>*>(instance)->op.reference(Run(run)); });
      };
    if constexpr (requires(const T& op) { op.state(); })
      table.state = [](void* instance, const void** bytes, size_t* size) -> int32_t {
        auto& held = *static_cast<Held<T>*>(instance);
        try {
          held.state = held.op.state();
        } catch (...) {
          return 1;
        }
        *bytes = held.state.data();
        *size = held.state.size();
        return 0;
      };
  }
  return table;
}

template <class... Operators>
const camshaft_plugin_library* library() {
  static const camshaft_plugin_operator tables[] = {table<Operators>()...};
  static const auto pointers = [] {
    struct {
      const camshaft_plugin_operator* of[sizeof...(Operators)];
    } all{};
    for (size_t i = 0; i < sizeof...(Operators); ++i) all.of[i] = &tables[i];
    return all;
  }();
  static const camshaft_plugin_library library = {sizeof library, CAMSHAFT_PLUGIN_ABI, sizeof...(Operators),
                                                  pointers.of};
  return &library;
}

}  // namespace detail

}  // namespace camshaft::plugin

/// Exports operators; once in a library.
#define CAMSHAFT_PLUGIN(...)                                                               \
  extern "C" CAMSHAFT_API const camshaft_plugin_library* camshaft_plugin_entry(uint32_t) { \
    return camshaft::plugin::detail::library<__VA_ARGS__>();                               \
  }
