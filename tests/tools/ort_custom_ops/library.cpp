// A library of custom operators for ONNX Runtime, which asks of its host what such libraries ask.
#include <cstring>
#include <memory>
#include <numeric>

#include "api.h"

namespace test {
namespace {

struct NoInfo {
  explicit NoInfo(const KernelInfo*) {}
};

// y = alpha * x + sum(bias), with a type of its own for each of two tables of one name.
template <class T, ElementType type>
struct Scaled {
  static constexpr const char* name = "Scaled";
  static constexpr ElementType takes[] = {type}, gives[] = {type};
  float alpha = 0;
  int64_t sum = 0;
  std::string mode;
  explicit Scaled(const KernelInfo* info) {
    check(call(slot("KernelInfoGetAttribute_float"), info, "alpha", &alpha));
    size_t count = 0;
    check(call(slot("KernelInfoGetAttributeArray_int64"), info, "bias", static_cast<int64_t*>(nullptr), &count));
    std::vector<int64_t> bias(count);
    check(call(slot("KernelInfoGetAttributeArray_int64"), info, "bias", bias.data(), &count));
    sum = std::accumulate(bias.begin(), bias.end(), int64_t{0});
    mode = text(slot("KernelInfoGetAttribute_string"), info, "mode");
    float absent = 0;
    Status* status = call(slot("KernelInfoGetAttribute_float"), info, "absent", &absent);
    if (!status) throw std::runtime_error("an attribute that is not there was found");
    call<void>(slot("ReleaseStatus"), status);
  }
  void compute(KernelContext* context) {
    const Input x = input(context, 0);
    T* y = output<T>(context, 0, x.dims);
    for (int64_t i = 0; i < x.size; ++i)
      y[i] = static_cast<T>(mode == "twice" ? 2 : 1) *
             static_cast<T>(static_cast<T>(alpha) * x.data<T>()[i] + static_cast<T>(sum));
  }
};

// The old way, which throws through C: the operator negates.
struct Negated {
  static const CustomOp* op() {
    static CustomOp op = *op_of<Scaled<float, f32_element>>();
    op.version = 8;
    op.name = [](const CustomOp*) { return "Negated"; };
    op.create_kernel = [](const CustomOp*, const Api*, const KernelInfo*) -> void* { return new int(-1); };
    op.compute = [](void* kernel, KernelContext* context) {
      const Input x = input(context, 0);
      if (x.dims.empty()) throw std::runtime_error("no scalars, please");
      float* y = output<float>(context, 0, x.dims);
      for (int64_t i = 0; i < x.size; ++i) y[i] = static_cast<float>(*static_cast<int*>(kernel)) * x.data<float>()[i];
    };
    op.destroy_kernel = [](void* kernel) { delete static_cast<int*>(kernel); };
    op.create_kernel_v2 = nullptr;
    op.compute_v2 = nullptr;
    return &op;
  }
};

// The positive elements: only running tells how many.
struct Positive : NoInfo {
  using NoInfo::NoInfo;
  static constexpr const char* name = "Positive";
  static constexpr ElementType takes[] = {f32_element}, gives[] = {f32_element};
  void compute(KernelContext* context) {
    const Input x = input(context, 0);
    std::vector<float> found;
    for (int64_t i = 0; i < x.size; ++i)
      if (x.data<float>()[i] > 0) found.push_back(x.data<float>()[i]);
    float* y = output<float>(context, 0, {static_cast<int64_t>(found.size())});
    if (!found.empty()) std::memcpy(y, found.data(), found.size() * sizeof(float));
  }
};

// The transpose of a matrix, with a rule of its own for sizes.
struct Transposed : NoInfo {
  using NoInfo::NoInfo;
  static constexpr const char* name = "Transposed";
  static constexpr ElementType takes[] = {undefined_element}, gives[] = {undefined_element};
  static Status* infer(ShapeContext* context) {
    const auto* from = const_cast<const ShapeContext*>(context);
    size_t count = 0;
    TensorInfo *x = nullptr, *y = nullptr;
    check(call(slot("ShapeInferContext_GetInputCount"), from, &count));
    check(call(slot("ShapeInferContext_GetInputTypeShape"), from, size_t{0}, &x));
    size_t rank = 0;
    check(call(slot("GetDimensionsCount"), const_cast<const TensorInfo*>(x), &rank));
    if (count != 1 || rank != 2) throw std::runtime_error("it transposes one matrix");
    int64_t dims[2] = {0, 0};
    const char* names[2] = {nullptr, nullptr};
    ElementType type = undefined_element;
    check(call(slot("GetDimensions"), const_cast<const TensorInfo*>(x), +dims, rank));
    check(call(slot("GetSymbolicDimensions"), const_cast<const TensorInfo*>(x), +names, rank));
    check(call(slot("GetTensorElementType"), const_cast<const TensorInfo*>(x), &type));
    std::swap(dims[0], dims[1]);
    std::swap(names[0], names[1]);
    check(call(slot("CreateTensorTypeAndShapeInfo"), &y));
    check(call(slot("SetTensorElementType"), y, type));
    check(call(slot("SetDimensions"), y, const_cast<const int64_t*>(+dims), rank));
    check(call(slot("SetSymbolicDimensions"), y, +names, rank));
    check(call(slot("ShapeInferContext_SetOutputTypeShape"), from, size_t{0}, const_cast<const TensorInfo*>(y)));
    call<void>(slot("ReleaseTensorTypeAndShapeInfo"), y);
    const OpAttribute* attribute = nullptr;
    if (Status* status = call(slot("ShapeInferContext_GetAttribute"), from, "axes", &attribute)) {
      call<void>(slot("ReleaseStatus"), status);
      return nullptr;
    }
    int64_t axes[2] = {0, 0};
    size_t bytes = 0;
    check(call(slot("ReadOpAttr"), attribute, ints_attribute, static_cast<void*>(axes), sizeof axes, &bytes));
    // ONNX Runtime does not look at this status.
    return bytes == sizeof axes && axes[0] == 1 && axes[1] == 0 ? nullptr : failure("the axes are 1 and 0");
  }
  void compute(KernelContext* context) {
    const Input x = input(context, 0);
    const size_t width = x.type == f64_element || x.type == i64_element ? 8 : 4;
    const auto rows = static_cast<size_t>(x.dims[0]), columns = static_cast<size_t>(x.dims[1]);
    char* y = output<char>(context, 0, {x.dims[1], x.dims[0]});
    for (size_t r = 0; r < rows; ++r)
      for (size_t c = 0; c < columns; ++c)
        std::memcpy(y + (c * rows + r) * width, x.data<char>() + (r * columns + c) * width, width);
  }
};

// Any number of operands, as many results: each is the sum of those up to it.
struct RunningSum : NoInfo {
  using NoInfo::NoInfo;
  static constexpr const char* name = "RunningSum";
  static constexpr ElementType takes[] = {f32_element}, gives[] = {f32_element};
  static Characteristic input_is(size_t) { return variadic_operand; }
  static Characteristic output_is(size_t) { return variadic_operand; }
  void compute(KernelContext* context) {
    std::vector<float> sum;
    for (size_t k = 0; k < inputs(context); ++k) {
      const Input x = input(context, k);
      sum.resize(static_cast<size_t>(x.size));
      float* y = output<float>(context, k, x.dims);
      for (int64_t i = 0; i < x.size; ++i) y[i] = sum[static_cast<size_t>(i)] += x.data<float>()[i];
    }
  }
};

// An operand that may be left out, and one result that may be.
struct Shifted : NoInfo {
  using NoInfo::NoInfo;
  static constexpr const char* name = "Shifted";
  static constexpr ElementType takes[] = {f32_element, f32_element}, gives[] = {f32_element, i64_element};
  static Characteristic input_is(size_t i) { return i == 0 ? required_operand : optional_operand; }
  static Characteristic output_is(size_t i) { return i == 0 ? required_operand : optional_operand; }
  void compute(KernelContext* context) {
    const Input x = input(context, 0);
    const Input by = inputs(context) > 1 ? input(context, 1) : Input();
    float* y = output<float>(context, 0, x.dims);
    for (int64_t i = 0; i < x.size; ++i) y[i] = x.data<float>()[i] + (by.value ? by.data<float>()[0] : 100);
    size_t outputs = 0;
    check(call(slot("KernelContext_GetOutputCount"), const_cast<const KernelContext*>(context), &outputs));
    if (outputs > 1)
      if (int64_t* count = output<int64_t>(context, 1, {1})) *count = x.size;
  }
};

// x times weights that must be constant, which the kernel keeps, and a tensor that is an attribute.
struct Weighted {
  static constexpr const char* name = "Weighted";
  static constexpr ElementType takes[] = {f32_element, f32_element}, gives[] = {f32_element};
  const float* weights = nullptr;
  std::vector<float> table;
  KernelInfo* copy = nullptr;
  explicit Weighted(const KernelInfo* info) {
    int is_constant = 0;
    const Value* value = nullptr;
    check(call(slot("KernelInfoGetConstantInput_tensor"), info, size_t{0}, &is_constant, &value));
    if (is_constant) throw std::runtime_error("operand 0 is no constant");
    check(call(slot("KernelInfoGetConstantInput_tensor"), info, size_t{1}, &is_constant, &value));
    if (!is_constant) throw std::runtime_error("the weights are no constant");
    void* data = nullptr;
    check(call(slot("GetTensorMutableData"), const_cast<Value*>(value), &data));
    weights = static_cast<const float*>(data);
    Allocator* allocator = nullptr;
    check(call(slot("GetAllocatorWithDefaultOptions"), &allocator));
    Value* tensor = nullptr;
    check(call(slot("KernelInfoGetAttribute_tensor"), info, "table", allocator, &tensor));
    Input input;
    input.value = tensor;
    TensorInfo* shape = nullptr;
    check(call(slot("GetTensorTypeAndShape"), const_cast<const Value*>(tensor), &shape));
    read(shape, input);
    table.assign(input.data<float>(), input.data<float>() + input.size);
    call<void>(slot("ReleaseValue"), tensor);
    check(call(slot("CopyKernelInfo"), info, &copy));
  }
  ~Weighted() { call<void>(slot("ReleaseKernelInfo"), copy); }
  void compute(KernelContext* context) {
    const Input x = input(context, 0);
    float* y = output<float>(context, 0, x.dims);
    const int64_t columns = x.dims.back();
    for (int64_t i = 0; i < x.size; ++i) y[i] = x.data<float>()[i] * weights[i % columns] * table[0];
  }
};

// What the host says of the node, as numbers.
struct Described {
  static constexpr const char* name = "Described";
  static constexpr ElementType takes[] = {f32_element, i64_element}, gives[] = {i64_element};
  std::vector<int64_t> numbers;
  explicit Described(const KernelInfo* info) {
    size_t inputs = 0, outputs = 0;
    check(call(slot("KernelInfo_GetInputCount"), info, &inputs));
    check(call(slot("KernelInfo_GetOutputCount"), info, &outputs));
    add({static_cast<int64_t>(inputs), static_cast<int64_t>(outputs)});
    add(text(slot("KernelInfo_GetNodeName"), info));
    for (size_t i = 0; i < inputs; ++i) {
      add(text(slot("KernelInfo_GetInputName"), info, i));
      TypeInfo* type = nullptr;
      check(call(slot("KernelInfo_GetInputTypeInfo"), info, i, &type));
      add(type);
    }
    add(text(slot("KernelInfo_GetOutputName"), info, size_t{0}));
    TypeInfo* type = nullptr;
    check(call(slot("KernelInfo_GetOutputTypeInfo"), info, size_t{0}, &type));
    add(type);
    const Logger* logger = nullptr;
    int32_t severity = -1;
    check(call(slot("KernelInfo_GetLogger"), info, &logger));
    check(call(slot("Logger_GetLoggingSeverityLevel"), logger, &severity));
    check(call(slot("Logger_LogMessage"), logger, int32_t{0}, "of a custom operator", "library.cpp", 1, "Described"));
    Allocator* allocator = nullptr;
    check(call(slot("KernelInfoGetAllocator"), info, int32_t{0}, &allocator));
    void* memory = nullptr;
    check(call(slot("AllocatorAlloc"), allocator, size_t{100}, &memory));
    check(call(slot("AllocatorFree"), allocator, memory));
    const MemoryInfo* where = nullptr;
    const char* of = nullptr;
    check(call(slot("AllocatorGetInfo"), const_cast<const Allocator*>(allocator), &where));
    check(call(slot("MemoryInfoGetName"), where, &of));
    add(std::string(of).substr(0, 3));
    call<void>(slot("ReleaseAllocator"), allocator);
  }
  void add(std::initializer_list<int64_t> more) { numbers.insert(numbers.end(), more); }
  void add(const std::string& text) {
    add({static_cast<int64_t>(text.size())});
    for (const char c : text) add({c});
  }
  void add(TypeInfo* type) {
    const TensorInfo* info = nullptr;
    int32_t kind = 0;
    ElementType element = undefined_element;
    size_t rank = 0;
    check(call(slot("GetOnnxTypeFromTypeInfo"), const_cast<const TypeInfo*>(type), &kind));
    check(call(slot("CastTypeInfoToTensorInfo"), const_cast<const TypeInfo*>(type), &info));
    check(call(slot("GetTensorElementType"), info, &element));
    check(call(slot("GetDimensionsCount"), info, &rank));
    std::vector<int64_t> dims(rank);
    check(call(slot("GetDimensions"), info, dims.data(), rank));
    add({kind, element, static_cast<int64_t>(rank)});
    for (const int64_t d : dims) add({d});
    call<void>(slot("ReleaseTypeInfo"), type);
  }
  void compute(KernelContext* context) {
    const auto* of = const_cast<const KernelContext*>(context);
    std::vector<int64_t> all = numbers;
    const Input x = input(context, 0);
    int flag = 0;
    int32_t kind = 0;
    check(call(slot("IsTensor"), x.value, &flag));
    check(call(slot("GetValueType"), x.value, &kind));
    all.insert(all.end(), {flag, kind, x.type, x.size});
    // Memory of the host's, and tensors over memory of our own.
    MemoryInfo* memory = nullptr;
    check(call(slot("CreateCpuMemoryInfo"), int32_t{0}, int32_t{0}, &memory));
    Allocator* allocator = nullptr;
    check(call(slot("KernelContext_GetAllocator"), of, const_cast<const MemoryInfo*>(memory), &allocator));
    const int64_t dims[] = {2, 3};
    float numbers6[6] = {0, 1, 2, 3, 4, 5};
    Value *over = nullptr, *own = nullptr;
    check(call(slot("CreateTensorWithDataAsOrtValue"), const_cast<const MemoryInfo*>(memory),
               static_cast<void*>(numbers6), sizeof numbers6, +dims, size_t{2}, f32_element, &over));
    check(call(slot("CreateTensorAsOrtValue"), allocator, +dims, size_t{2}, i64_element, &own));
    void* at = nullptr;
    const int64_t place[] = {1, 2};
    check(call(slot("TensorAt"), over, +place, size_t{2}, &at));
    size_t bytes = 0;
    check(call(slot("GetTensorSizeInBytes"), const_cast<const Value*>(own), &bytes));
    all.insert(all.end(), {static_cast<int64_t>(*static_cast<float*>(at)), static_cast<int64_t>(bytes)});
    call<void>(slot("ReleaseValue"), over);
    call<void>(slot("ReleaseValue"), own);
    call<void>(slot("ReleaseAllocator"), allocator);
    call<void>(slot("ReleaseMemoryInfo"), memory);
    // A loop on the host's threads.
    std::vector<int64_t> squares(1000);
    check(call(
        slot("KernelContext_ParallelFor"), of,
        +[](void* user, size_t i) { static_cast<int64_t*>(user)[i] = static_cast<int64_t>(i * i); }, squares.size(),
        size_t{4}, static_cast<void*>(squares.data())));
    all.push_back(std::accumulate(squares.begin(), squares.end(), int64_t{0}));
    const Logger* logger = nullptr;
    check(call(slot("KernelContext_GetLogger"), of, &logger));
    std::memcpy(output<int64_t>(context, 0, {static_cast<int64_t>(all.size())}), all.data(), all.size() * 8);
  }
};

// Calls operators of ONNX: the sum along an axis, and the reshaped input.
struct Calling {
  static constexpr const char* name = "Calling";
  static constexpr ElementType takes[] = {f32_element}, gives[] = {f32_element, f32_element};
  CalledOp *sum = nullptr, *reshape = nullptr;
  KernelInfo* copy = nullptr;
  explicit Calling(const KernelInfo* info) {
    check(call(slot("CopyKernelInfo"), info, &copy));
    const int64_t keep = 0;
    OpAttribute* attribute = nullptr;
    check(call(slot("CreateOpAttr"), "keepdims", static_cast<const void*>(&keep), 1, int_attribute, &attribute));
    const OpAttribute* attributes[] = {attribute};
    const char* type_names[] = {"T"};
    const ElementType types[] = {f32_element};
    check(call(slot("CreateOp"), static_cast<const KernelInfo*>(copy), "ReduceSum", "", 13, +type_names, +types, 1,
               +attributes, 1, 2, 1, &sum));
    check(call(slot("CreateOp"), static_cast<const KernelInfo*>(copy), "Reshape", "", 14, +type_names, +types, 1,
               static_cast<const OpAttribute**>(nullptr), 0, 2, 1, &reshape));
    call<void>(slot("ReleaseOpAttr"), attribute);
  }
  ~Calling() {
    call<void>(slot("ReleaseOp"), sum);
    call<void>(slot("ReleaseOp"), reshape);
    call<void>(slot("ReleaseKernelInfo"), copy);
  }
  void compute(KernelContext* context) {
    const Input x = input(context, 0);
    run(context, sum, x, {1}, 0, {x.dims[0]});
    run(context, reshape, x, {-1}, 1, {x.size});
  }
  static void run(KernelContext* context, CalledOp* op, const Input& x, std::vector<int64_t> numbers, size_t index,
                  std::vector<int64_t> dims) {
    MemoryInfo* memory = nullptr;
    check(call(slot("CreateCpuMemoryInfo"), int32_t{0}, int32_t{0}, &memory));
    const int64_t count[] = {static_cast<int64_t>(numbers.size())};
    Value *constant = nullptr, *y = nullptr;
    check(call(slot("CreateTensorWithDataAsOrtValue"), const_cast<const MemoryInfo*>(memory),
               static_cast<void*>(numbers.data()), numbers.size() * 8, +count, size_t{1}, i64_element, &constant));
    check(call(slot("KernelContext_GetOutput"), context, index, const_cast<const int64_t*>(dims.data()), dims.size(),
               &y));
    const Value* from[] = {x.value, constant};
    Value* to[] = {y};
    check(call(slot("InvokeOp"), const_cast<const KernelContext*>(context), const_cast<const CalledOp*>(op), +from, 2,
               +to, 1));
    call<void>(slot("ReleaseValue"), constant);
    call<void>(slot("ReleaseMemoryInfo"), memory);
  }
};

// Fails in the way that its attribute says.
struct Failing {
  static constexpr const char* name = "Failing";
  static constexpr ElementType takes[] = {f32_element}, gives[] = {f32_element};
  std::string how;
  explicit Failing(const KernelInfo* info) : how(text(slot("KernelInfoGetAttribute_string"), info, "how")) {
    if (how == "create") throw std::runtime_error("no kernel today");
  }
  void compute(KernelContext* context) {
    const Input x = input(context, 0);
    if (how == "status") throw std::runtime_error("the status of a run");
    if (how == "missing")
      check(call(slot("GetAvailableProviders"), static_cast<char***>(nullptr), static_cast<int*>(nullptr)));
    if (how == "shape") output<float>(context, 0, {x.dims[0] + 1, 7});
    if (how == "rank") output<float>(context, 0, {7});
    // Else it computes nothing.
  }
};

}  // namespace
}  // namespace test

extern "C" __attribute__((visibility("default"))) test::Status* RegisterCustomOps(
    [[maybe_unused]] test::SessionOptions* options, const test::ApiBase* base) {
  using namespace test;
#if defined(NEWER)
  table = base->get_api(99);
#else
  table = base->get_api(17);
#endif
#if defined(THROWS)
  throw std::runtime_error("nothing can be registered");
#elif defined(FAILS)
  return failure("a status of the registration");
#elif defined(EMPTY)
  return nullptr;
#else
  Domain* domain = nullptr;
  if (Status* status = call(slot("CreateCustomOpDomain"), "test.ort", &domain)) return status;
  for (const CustomOp* op : {op_of<Scaled<float, f32_element>>(), op_of<Scaled<int32_t, i32_element>>(), Negated::op(),
                             op_of<Positive>(), op_of<Transposed>(), op_of<RunningSum>(), op_of<Shifted>(),
                             op_of<Weighted>(), op_of<Described>(), op_of<Calling>(), op_of<Failing>()})
    if (Status* status = call(slot("CustomOpDomain_Add"), domain, op)) return status;
#if defined(NEWER_OPERATOR)
  static CustomOp newer = *op_of<Positive>();
  newer.version = 99;
  newer.name = [](const CustomOp*) { return "Newer"; };
  if (Status* status = call(slot("CustomOpDomain_Add"), domain, const_cast<const CustomOp*>(&newer))) return status;
#elif defined(ELSEWHERE)
  static CustomOp other = *op_of<Positive>();
  other.name = [](const CustomOp*) { return "OnlyCuda"; };
  other.execution_provider = [](const CustomOp*) { return "CUDAExecutionProvider"; };
  if (Status* status = call(slot("CustomOpDomain_Add"), domain, const_cast<const CustomOp*>(&other))) return status;
#endif
  // The domain is never released: sessions refer to it.
  return call(slot("AddCustomOpDomain"), options, domain);
#endif
}
