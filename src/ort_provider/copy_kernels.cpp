#include "ort_provider/copy_kernels.h"

#include <utility>
#include <vector>

#include "ort_provider/gpu_memory.h"
#include "ort_provider/sync_stream.h"
#include "ort_provider/values.h"

namespace camshaft::ort_provider {

namespace {

using ort::slot;

/// Types of fixed size that are in tensors: all but strings and complex numbers.
std::vector<const OrtDataType*> types_of_numbers(const Host& host) {
  std::vector<const OrtDataType*> types;
  constexpr ort::ElementType elements[] = {ort::f32_element, ort::u8_element,  ort::i8_element,  ort::u16_element,
                                           ort::i16_element, ort::i32_element, ort::i64_element, ort::bool_element,
                                           ort::f16_element, ort::f64_element, ort::u32_element, ort::u64_element,
                                           ort::bf16_element};
  for (const ort::ElementType element : elements) {
    const OrtDataType* type = nullptr;
    host.check(host.ep().tensor_type(element, &type), slot("GetEpApi"));
    types.push_back(type);
  }
  return types;
}

}  // namespace

void copy_tensor(const Host& host, const OrtValue* from, OrtValue* to, const FindStream& find_stream) {
  const DeviceId source = device_of(host, from), target = device_of(host, to);
  GpuMemory& memory = GpuMemory::of((target.is_gpu() ? target : source).ordinal());
  const bool is_between_gpus = source.is_gpu() && target.is_gpu() && source != target;
  memory.copy(host.get<void*>(slot("GetTensorMutableData"), to), target,
              host.get<const void*>(slot("GetTensorData"), from), source,
              host.get<size_t>(slot("GetTensorSizeInBytes"), from),
              is_between_gpus ? nullptr : find_stream(memory.device()));
}

struct CopyKernels::Copy : KernelImpl {
  Copy(const Host& of, bool in_default) : host(of), in_default_stream(in_default) {
    compute = [](KernelImpl* self, OrtKernelContext* context) {
      const auto& own = *static_cast<Copy*>(self);
      return own.host.guarded([&] {
        const Host& host = own.host;
        const auto* from = host.get<const OrtValue*>(slot("KernelContext_GetInput"), std::as_const(context), size_t{0});
        std::vector<int64_t> dims;
        read_dims(host, from, dims);
        auto* to = host.get<OrtValue*>(slot("KernelContext_GetOutput"), context, size_t{0}, std::as_const(dims).data(),
                                       dims.size());
        copy_tensor(host, from, to, [&](const cuda::Device& device) {
          return stream_of(host, context, device, own.in_default_stream);
        });
      });
    };
    release = [](KernelImpl* self) { delete static_cast<Copy*>(self); };
  }
  const Host& host;
  bool in_default_stream;
};

CopyKernels::CopyKernels(const Host& host, const char* provider, bool in_default_stream)
    : host_(host), in_default_stream_(in_default_stream) {
  host.check(host.ep().create_kernel_registry(&registry_), slot("GetEpApi"));
  try {
    add("MemcpyFromHost", true, provider);
    add("MemcpyToHost", false, provider);
  } catch (...) {
    host.ep().release_kernel_registry(registry_);
    throw;
  }
}

CopyKernels::~CopyKernels() {
  host_.ep().release_kernel_registry(registry_);
}

void CopyKernels::add(const char* op, bool from_host, const char* provider) {
  const EpApi& api = host_.ep();
  const auto ask = [&](OrtStatus* status) { host_.check(status, slot("GetEpApi")); };
  struct Builder {
    const EpApi& api;
    OrtKernelDefBuilder* builder = nullptr;
    OrtKernelDef* definition = nullptr;
    ~Builder() {
      if (definition) api.release_kernel_def(definition);
      if (builder) api.release_kernel_def_builder(builder);
    }
  } made{api};
  ask(api.create_kernel_def_builder(&made.builder));
  ask(api.set_operator_type(made.builder, op));
  ask(api.set_domain(made.builder, ""));
  ask(api.set_since_version(made.builder, 1, 1));
  ask(api.set_provider(made.builder, provider));
  ask(from_host ? api.set_input_memory(made.builder, 0, host_input)
                : api.set_output_memory(made.builder, 0, host_output));
  const std::vector<const OrtDataType*> types = types_of_numbers(host_);
  ask(api.add_type_constraint(made.builder, "T", types.data(), types.size()));
  ask(api.build_kernel_def(made.builder, &made.definition));
  const CreateKernel create = [](void* state, const OrtKernelInfo*, KernelImpl** kernel) -> OrtStatus* {
    const auto& own = *static_cast<CopyKernels*>(state);
    return own.host_.guarded([&] { *kernel = new Copy(own.host_, own.in_default_stream_); });
  };
  ask(api.add_kernel(registry_, made.definition, create, this));
}

}  // namespace camshaft::ort_provider
