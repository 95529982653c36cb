// What kernels ask of their node, and of a run.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "base/foreign_call.h"
#include "base/thread_pool.h"
#include "plugin/ort/api.h"

namespace camshaft::ort {

namespace {

// ---- The node ----

const OperandFacts& operand_at(const std::vector<OperandFacts>& operands, size_t index) {
  if (index >= operands.size()) throw Error(ErrorCode::invalid_argument, fmt::format("there is no operand {}", index));
  return operands[index];
}

Status* count_inputs(const KernelInfo* info, size_t* out) {
  *out = info->node->facts.inputs.size();
  return nullptr;
}
Status* count_outputs(const KernelInfo* info, size_t* out) {
  *out = info->node->facts.outputs.size();
  return nullptr;
}
Status* name_of_input(const KernelInfo* info, size_t index, char* out, size_t* size) {
  return guarded([&] { return give_text(operand_at(info->node->facts.inputs, index).name, out, size); });
}
Status* name_of_output(const KernelInfo* info, size_t index, char* out, size_t* size) {
  return guarded([&] { return give_text(operand_at(info->node->facts.outputs, index).name, out, size); });
}
Status* type_of_input(const KernelInfo* info, size_t index, TypeInfo** out) {
  return guarded([&]() -> Status* {
    *out = new TypeInfo{TensorInfo(operand_at(info->node->facts.inputs, index))};
    return nullptr;
  });
}
Status* type_of_output(const KernelInfo* info, size_t index, TypeInfo** out) {
  return guarded([&]() -> Status* {
    *out = new TypeInfo{TensorInfo(operand_at(info->node->facts.outputs, index))};
    return nullptr;
  });
}
Status* name_of_node(const KernelInfo* info, char* out, size_t* size) {
  return guarded([&] { return give_text(info->node->facts.name, out, size); });
}
Status* domain_of_node(const KernelInfo* info, char* out, size_t* size) {
  return guarded([&] { return give_text(info->node->domain, out, size); });
}
Status* operator_of_node(const KernelInfo* info, char* out, size_t* size) {
  return guarded([&] { return give_text(info->node->type, out, size); });
}
Status* version_of_node(const KernelInfo* info, int* out) {
  *out = static_cast<int>(info->node->facts.version);
  return nullptr;
}
Status* config_of_node(const KernelInfo*, KeyValuePairs** out) {
  *out = new KeyValuePairs;
  return nullptr;
}

/// Keeps operand `index` of the run, where the model has it as a constant.
const Value* keep_constant(const KernelInfo& info, size_t index) {
  NodeOfKernel& node = *info.node;
  const std::lock_guard lock(node.mutex);
  if (const auto it = node.constants.find(index); it != node.constants.end()) return &it->second;
  if (!info.call || index >= info.call->inputs.size()) return nullptr;
  if (index >= node.facts.inputs.size() || node.facts.inputs[index].constant.empty()) return nullptr;
  const PluginOperand& operand = info.call->inputs[index];
  Value value{operand.dtype, operand.dims};
  value.memory = std::make_shared<std::byte[]>(value.bytes());
  value.data = value.memory.get();
  if (value.bytes() > 0) std::memcpy(value.data, operand.data, value.bytes());
  return &node.constants.emplace(index, std::move(value)).first->second;
}
Status* constant_input(const KernelInfo* info, size_t index, int* is_constant, const Value** out) {
  return guarded([&]() -> Status* {
    operand_at(info->node->facts.inputs, index);
    *out = keep_constant(*info, index);
    *is_constant = *out ? 1 : 0;
    return nullptr;
  });
}
Status* copy_info(const KernelInfo* info, KernelInfo** out) {
  return guarded([&]() -> Status* {
    // It may be asked for constants when this run is over.
    for (size_t i = 0; i < info->node->facts.inputs.size(); ++i) keep_constant(*info, i);
    *out = new KernelInfo{info->node, nullptr};
    return nullptr;
  });
}
void release_info_copy(KernelInfo* info) {
  delete info;
}
Status* log_of_node(const KernelInfo*, const Logger** out) {
  *out = &the_logger;
  return nullptr;
}
Status* allocator_of_node(const KernelInfo*, int32_t, Allocator** out) {
  *out = &the_allocator;
  return nullptr;
}

// ---- A run ----

Status* count_run_inputs(const KernelContext* context, size_t* out) {
  *out = context->inputs.size();
  return nullptr;
}
Status* count_run_outputs(const KernelContext* context, size_t* out) {
  *out = context->outputs.size();
  return nullptr;
}
Status* input_of_run(const KernelContext* context, size_t index, const Value** out) {
  if (index >= context->inputs.size()) return failure(invalid_argument, fmt::format("there is no input {}", index));
  *out = context->call.inputs[index].present ? &context->inputs[index] : nullptr;
  return nullptr;
}
/// As the node was read: what its shape inference or the model says, "?" for what only running tells.
std::string expected_shape(const OperandFacts& output) {
  std::string text;
  for (const std::string& dim : output.dims) text += (text.empty() ? "" : ", ") + (dim.empty() ? "?" : dim);
  return "[" + text + "]";
}
Status* output_of_run(KernelContext* context, size_t index, const int64_t* dims, size_t rank, Value** out) {
  return guarded([&]() -> Status* {
    if (index >= context->outputs.size()) return failure(invalid_argument, fmt::format("there is no output {}", index));
    const OperandFacts& facts = context->facts.outputs[index];
    if (!facts.present) {  // one that the node leaves out
      *out = nullptr;
      return nullptr;
    }
    Value& value = context->outputs[index];
    const Dims wanted(dims, dims + rank);
    if (!context->asked[index] && !value.data && context->call.resize) {
      // Its size only running tells. Null: it is known, and has no elements.
      if (std::byte* memory = context->call.resize(index, wanted)) {
        value.dims = wanted;
        value.data = memory;
      }
    }
    context->asked[index] = true;
    if (value.dims != wanted)
      return failure(invalid_argument,
                     fmt::format("it gives output {} the shape [{}], and {} was expected: what the operator's shape "
                                 "inference says, or else the model declares of that output, must agree with it",
                                 index, fmt::join(wanted, ", "), expected_shape(facts)));
    *out = &value;
    return nullptr;
  });
}
Status* prepared_output(const KernelContext* context, size_t index, Value** out) {
  if (index >= context->outputs.size()) return failure(invalid_argument, fmt::format("there is no output {}", index));
  auto& value = const_cast<Value&>(context->outputs[index]);
  *out = value.data ? &value : nullptr;
  if (*out) const_cast<KernelContext*>(context)->asked[index] = true;
  return nullptr;
}
Status* no_stream(const KernelContext*, void** out) {
  *out = nullptr;
  return nullptr;
}
Status* no_resource(const KernelContext*, int version, int id, void**) {
  return failure(not_implemented,
                 fmt::format("there is no resource {} (version {}): custom operators run on the host", id, version));
}
Status* log_of_run(const KernelContext*, const Logger** out) {
  *out = &the_logger;
  return nullptr;
}
Status* allocator_of_run(const KernelContext*, const MemoryInfo*, Allocator** out) {
  *out = &the_allocator;
  return nullptr;
}
Status* scratch_of_run(const KernelContext* context, const MemoryInfo*, size_t bytes, void** out) {
  return guarded([&]() -> Status* {
    auto& scratch = const_cast<KernelContext*>(context)->scratch;
    scratch.push_back(std::make_unique<std::byte[]>(bytes));
    *out = scratch.back().get();
    return nullptr;
  });
}
Status* run_parallel(const KernelContext* context, void (*body)(void*, size_t), size_t count, size_t parts,
                     void* user) {
  return guarded([&]() -> Status* {
    std::mutex mutex;
    std::string thrown;
    const auto run = [&](int64_t begin, int64_t end) {
      try {
        foreign_call([&] {
          for (int64_t i = begin; i < end; ++i) body(user, static_cast<size_t>(i));
          return 0;
        });
      } catch (const ForeignException& e) {
        const std::lock_guard lock(mutex);
        thrown = e.message.empty() ? "a part of its loop threw something" : e.message;
      }
    };
    const auto total = static_cast<int64_t>(count);
    const int64_t grain = parts == 0 ? 1 : (total + static_cast<int64_t>(parts) - 1) / static_cast<int64_t>(parts);
    if (!context->call.pool) {
      run(0, total);
    } else {
      context->call.pool->parallel_for(total, std::max<int64_t>(1, grain), run);
    }
    return thrown.empty() ? nullptr : failure(runtime_exception, thrown);
  });
}

}  // namespace

void add_kernel_functions(Api& t) {
  put(t, slot("KernelInfo_GetInputCount"), count_inputs);
  put(t, slot("KernelInfo_GetOutputCount"), count_outputs);
  put(t, slot("KernelInfo_GetInputName"), name_of_input);
  put(t, slot("KernelInfo_GetOutputName"), name_of_output);
  put(t, slot("KernelInfo_GetInputTypeInfo"), type_of_input);
  put(t, slot("KernelInfo_GetOutputTypeInfo"), type_of_output);
  put(t, slot("KernelInfo_GetNodeName"), name_of_node);
  put(t, slot("KernelInfo_GetOperatorDomain"), domain_of_node);
  put(t, slot("KernelInfo_GetOperatorType"), operator_of_node);
  put(t, slot("KernelInfo_GetOperatorSinceVersion"), version_of_node);
  put(t, slot("KernelInfo_GetConfigEntries"), config_of_node);
  put(t, slot("KernelInfoGetConstantInput_tensor"), constant_input);
  put(t, slot("KernelInfo_GetLogger"), log_of_node);
  put(t, slot("KernelInfoGetAllocator"), allocator_of_node);
  put(t, slot("CopyKernelInfo"), copy_info);
  put(t, slot("ReleaseKernelInfo"), release_info_copy);
  put(t, slot("KernelContext_GetInputCount"), count_run_inputs);
  put(t, slot("KernelContext_GetOutputCount"), count_run_outputs);
  put(t, slot("KernelContext_GetInput"), input_of_run);
  put(t, slot("KernelContext_GetOutput"), output_of_run);
  put(t, slot("KernelContext_GetPreallocatedOutput"), prepared_output);
  put(t, slot("KernelContext_GetGPUComputeStream"), no_stream);
  put(t, slot("KernelContext_GetSyncStream"), no_stream);
  put(t, slot("KernelContext_GetResource"), no_resource);
  put(t, slot("KernelContext_GetLogger"), log_of_run);
  put(t, slot("KernelContext_GetAllocator"), allocator_of_run);
  put(t, slot("KernelContext_GetScratchBuffer"), scratch_of_run);
  put(t, slot("KernelContext_ParallelFor"), run_parallel);
}

}  // namespace camshaft::ort
