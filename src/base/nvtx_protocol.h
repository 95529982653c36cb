// What a program and a profiler have to agree on for NVTX 3: the part of it that ranges need, declared here so that
// building needs none of NVIDIA's headers. tests/base/nvtx_test.cpp holds it to them where they are.
#pragma once

#include <cstddef>
#include <cstdint>

namespace camshaft::nvtx {

constexpr unsigned version = 3;

/// NvtxExportTableID: what a profiler may ask the program for.
enum Table : uint32_t { callbacks = 1, version_info = 3 };
/// NvtxCallbackModule: of the functions that it may give the program.
enum Module : int { core = 1, cuda = 2, opencl = 3, cudart = 4, core2 = 5, sync = 6, module_count = 7 };
/// Functions in each module, and the empty place before them: NVTX_CBID_…_SIZE.
constexpr unsigned module_size[module_count] = {0, 16, 9, 15, 7, 16, 7};
/// NvtxCallbackIdCore2
enum Core2 : unsigned { domain_range_push = 4, domain_range_pop = 5, domain_create = 12 };

using Function = void (*)();

/// NvtxExportTableCallbacks
struct Callbacks {
  size_t bytes = sizeof(Callbacks);
  /// The places of a module's functions, which the profiler fills; 0 for a module that is not known.
  int (*module_functions)(int module, Function*** table, unsigned* size) = nullptr;
};

/// NvtxExportTableVersionInfo
struct VersionInfo {
  size_t bytes = sizeof(VersionInfo);
  uint32_t version = nvtx::version;
  uint32_t reserved = 0;
  void (*set_version_of_profiler)(uint32_t version) = nullptr;
};

/// nvtxEventAttributes_v2
struct Event {
  uint16_t version = nvtx::version;
  uint16_t bytes = sizeof(Event);
  uint32_t category = 0;
  int32_t color_type = 0;
  uint32_t color = 0;
  int32_t payload_type = 0;
  int32_t reserved = 0;
  uint64_t payload = 0;
  int32_t message_type = 1;  ///< NVTX_MESSAGE_TYPE_ASCII, which may be UTF-8
  const char* message = nullptr;
};

using Domain = void*;
using DomainCreate = Domain (*)(const char* name);
using RangePush = int (*)(Domain domain, const Event* event);
using RangePop = int (*)(Domain domain);

/// The function InitializeInjectionNvtx2 of the profiler's library.
using Initialize = int (*)(const void* (*export_table)(uint32_t table));

}  // namespace camshaft::nvtx
