// Statuses, memory, options, keys with values, and the log.
#include <cstdlib>

#include "base/log.h"
#include "plugin/ort/api.h"

namespace camshaft::ort {

const Logger the_logger;

namespace {

const MemoryInfo host_memory;

void* allocate_memory(Allocator*, size_t bytes) {
  // As aligned as the memory of operands.
  return bytes == 0 ? nullptr : std::aligned_alloc(64, (bytes + 63) / 64 * 64);
}
void free_memory(Allocator*, void* memory) {
  std::free(memory);
}
const MemoryInfo* memory_of_allocator(const Allocator*) {
  return &host_memory;
}
Status* no_statistics(const Allocator*, KeyValuePairs** out) {
  *out = new KeyValuePairs;
  return nullptr;
}
void* allocate_on_stream(Allocator* self, size_t bytes, void*) {
  return allocate_memory(self, bytes);
}

// ---- Statuses ----

Status* create_status(int32_t code, const char* message) {
  return new Status{code, message ? message : ""};
}
int32_t code_of_status(const Status* status) {
  return status->code;
}
const char* message_of_status(const Status* status) {
  return status->message.c_str();
}
void release_status(Status* status) {
  delete status;
}

// ---- Memory ----

Status* create_memory_info(const char* name, int32_t allocator_type, int id, int32_t memory_type, MemoryInfo** out) {
  return guarded([&]() -> Status* {
    if (std::string_view(name) != "Cpu")
      return failure(invalid_argument,
                     std::string("there is no memory '") + name + "' for custom operators, but 'Cpu'");
    *out = new MemoryInfo{name, allocator_type, id, memory_type};
    return nullptr;
  });
}
Status* create_cpu_memory_info(int32_t allocator_type, int32_t memory_type, MemoryInfo** out) {
  *out = new MemoryInfo{"Cpu", allocator_type, 0, memory_type};
  return nullptr;
}
Status* compare_memory_info(const MemoryInfo* a, const MemoryInfo* b, int* out) {
  *out = *a == *b ? 0 : -1;
  return nullptr;
}
Status* name_of_memory(const MemoryInfo* info, const char** out) {
  *out = info->name.c_str();
  return nullptr;
}
template <int32_t MemoryInfo::*member>
Status* number_of_memory(const MemoryInfo* info, int32_t* out) {
  *out = info->*member;
  return nullptr;
}
void device_of_memory(const MemoryInfo*, int32_t* out) {
  *out = 0;
}
int32_t kind_of_memory(const MemoryInfo*) {
  return 0;
}
void release_memory_info(MemoryInfo* info) {
  delete info;
}

Status* default_allocator(Allocator** out) {
  *out = &the_allocator;
  return nullptr;
}
void release_allocator(Allocator*) {}  // there is one
Status* call_allocator(Allocator* allocator, size_t bytes, void** out) {
  *out = allocator->alloc(allocator, bytes);
  return *out || bytes == 0 ? nullptr : failure(failed, "out of memory");
}
Status* call_free(Allocator* allocator, void* memory) {
  allocator->free(allocator, memory);
  return nullptr;
}
Status* info_of_allocator(const Allocator* allocator, const MemoryInfo** out) {
  *out = allocator->info(allocator);
  return nullptr;
}
Status* memory_of_value(const Value*, const MemoryInfo** out) {
  *out = &host_memory;
  return nullptr;
}

// ---- Keys with values ----

void create_pairs(KeyValuePairs** out) {
  *out = new KeyValuePairs;
}
void add_pair(KeyValuePairs* pairs, const char* key, const char* value) {
  if (key && *key && value) pairs->entries[key] = value;
}
const char* value_of_key(const KeyValuePairs* pairs, const char* key) {
  const auto it = pairs->entries.find(key ? key : "");
  return it == pairs->entries.end() ? nullptr : it->second.c_str();
}
void list_pairs(const KeyValuePairs* given, const char* const** keys, const char* const** values, size_t* count) {
  auto* pairs = const_cast<KeyValuePairs*>(given);
  pairs->keys.clear();
  pairs->values.clear();
  for (const auto& [key, value] : pairs->entries) {
    pairs->keys.push_back(key.c_str());
    pairs->values.push_back(value.c_str());
  }
  *keys = pairs->keys.data();
  *values = pairs->values.data();
  *count = pairs->keys.size();
}
void remove_pair(KeyValuePairs* pairs, const char* key) {
  pairs->entries.erase(key ? key : "");
}
void release_pairs(KeyValuePairs* pairs) {
  delete pairs;
}

// ---- Options of the session, which a library registers with ----

Status* create_domain(const char* name, Domain** out) {
  return guarded([&]() -> Status* {
    *out = new Domain{name ? name : ""};
    return nullptr;
  });
}
Status* add_to_domain(Domain* domain, const CustomOp* op) {
  return guarded([&]() -> Status* {
    if (!op) return failure(invalid_argument, "a custom operator is a null pointer");
    domain->ops->push_back(op);
    return nullptr;
  });
}
Status* add_domain(SessionOptions* options, Domain* domain) {
  return guarded([&]() -> Status* {
    options->domains.push_back(*domain);
    return nullptr;
  });
}
void release_domain(Domain* domain) {
  delete domain;
}
Status* add_config(SessionOptions* options, const char* key, const char* value) {
  return guarded([&]() -> Status* {
    options->config[key] = value;
    return nullptr;
  });
}
Status* has_config(const SessionOptions* options, const char* key, int* out) {
  *out = options->config.contains(key) ? 1 : 0;
  return nullptr;
}
Status* get_config(const SessionOptions* options, const char* key, char* out, size_t* size) {
  return guarded([&]() -> Status* {
    const auto it = options->config.find(key);
    if (it == options->config.end())
      return failure(invalid_argument, std::string("there is no configuration '") + key + "'");
    return give_text(it->second, out, size);
  });
}
Status* list_config(const SessionOptions* options, KeyValuePairs** out) {
  return guarded([&]() -> Status* {
    *out = new KeyValuePairs{options->config, {}, {}};
    return nullptr;
  });
}

// ---- The log ----

constexpr LogLevel levels_of_log[] = {LogLevel::debug, LogLevel::info, LogLevel::warning, LogLevel::error};

Status* log_message(const Logger*, int32_t severity, const char* message, const char*, int, const char*) {
  return guarded([&]() -> Status* {
    if (severity < 0) return failure(invalid_argument, "there is no such level");
    log(levels_of_log[std::min<int32_t>(severity, 3)], message ? message : "");
    return nullptr;
  });
}
Status* severity_of_log(const Logger*, int32_t* out) {
  int32_t severity = 0;
  while (severity < 3 && !log_enabled(levels_of_log[severity])) ++severity;
  *out = severity;
  return nullptr;
}

const char* build_info() {
  return "Camshaft, as custom operators of ONNX Runtime see it";
}

}  // namespace

Allocator the_allocator{
    24, allocate_memory, free_memory, memory_of_allocator, allocate_memory, no_statistics, allocate_on_stream};

void add_memory_functions(Api& t) {
  put(t, slot("CreateStatus"), create_status);
  put(t, slot("GetErrorCode"), code_of_status);
  put(t, slot("GetErrorMessage"), message_of_status);
  put(t, slot("ReleaseStatus"), release_status);
  put(t, slot("CreateMemoryInfo"), create_memory_info);
  put(t, slot("CreateCpuMemoryInfo"), create_cpu_memory_info);
  put(t, slot("CompareMemoryInfo"), compare_memory_info);
  put(t, slot("MemoryInfoGetName"), name_of_memory);
  put(t, slot("MemoryInfoGetId"), number_of_memory<&MemoryInfo::id>);
  put(t, slot("MemoryInfoGetMemType"), number_of_memory<&MemoryInfo::memory_type>);
  put(t, slot("MemoryInfoGetType"), number_of_memory<&MemoryInfo::allocator_type>);
  put(t, slot("MemoryInfoGetDeviceType"), device_of_memory);
  put(t, slot("MemoryInfoGetDeviceMemType"), kind_of_memory);
  put(t, slot("MemoryInfoGetVendorId"), kind_of_memory);
  put(t, slot("ReleaseMemoryInfo"), release_memory_info);
  put(t, slot("GetAllocatorWithDefaultOptions"), default_allocator);
  put(t, slot("ReleaseAllocator"), release_allocator);
  put(t, slot("AllocatorAlloc"), call_allocator);
  put(t, slot("AllocatorFree"), call_free);
  put(t, slot("AllocatorGetInfo"), info_of_allocator);
  put(t, slot("GetTensorMemoryInfo"), memory_of_value);
  put(t, slot("CreateKeyValuePairs"), create_pairs);
  put(t, slot("AddKeyValuePair"), add_pair);
  put(t, slot("GetKeyValue"), value_of_key);
  put(t, slot("GetKeyValuePairs"), list_pairs);
  put(t, slot("RemoveKeyValuePair"), remove_pair);
  put(t, slot("ReleaseKeyValuePairs"), release_pairs);
  put(t, slot("CreateCustomOpDomain"), create_domain);
  put(t, slot("CustomOpDomain_Add"), add_to_domain);
  put(t, slot("AddCustomOpDomain"), add_domain);
  put(t, slot("ReleaseCustomOpDomain"), release_domain);
  put(t, slot("AddSessionConfigEntry"), add_config);
  put(t, slot("HasSessionConfigEntry"), has_config);
  put(t, slot("GetSessionConfigEntry"), get_config);
  put(t, slot("GetSessionOptionsConfigEntries"), list_config);
  put(t, slot("Logger_LogMessage"), log_message);
  put(t, slot("Logger_GetLoggingSeverityLevel"), severity_of_log);
  put(t, slot("GetBuildInfoString"), build_info);
}

}  // namespace camshaft::ort
