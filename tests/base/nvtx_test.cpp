// Our part of NVTX 3 against NVIDIA's headers, where these are: the compiler does the work. That ranges arrive is
// tested in tests/tools/test_nvtx.py, in a process of its own.
#include "base/nvtx.h"

#include <gtest/gtest.h>

#include <cstddef>

#include "base/nvtx_protocol.h"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define CAMSHAFT_HAS_NVTX
#endif

namespace camshaft::nvtx_test {
namespace {

#ifdef CAMSHAFT_HAS_NVTX
static_assert(nvtx::version == NVTX_VERSION);
static_assert(int{nvtx::callbacks} == NVTX_ETID_CALLBACKS && int{nvtx::version_info} == NVTX_ETID_VERSIONINFO);
static_assert(int{nvtx::core} == NVTX_CB_MODULE_CORE && int{nvtx::core2} == NVTX_CB_MODULE_CORE2 &&
              int{nvtx::cuda} == NVTX_CB_MODULE_CUDA && int{nvtx::opencl} == NVTX_CB_MODULE_OPENCL &&
              int{nvtx::cudart} == NVTX_CB_MODULE_CUDART && int{nvtx::sync} == NVTX_CB_MODULE_SYNC &&
              int{nvtx::module_count} == NVTX_CB_MODULE_SIZE);
static_assert(nvtx::module_size[nvtx::core] == NVTX_CBID_CORE_SIZE &&
              nvtx::module_size[nvtx::cuda] == NVTX_CBID_CUDA_SIZE &&
              nvtx::module_size[nvtx::opencl] == NVTX_CBID_OPENCL_SIZE &&
              nvtx::module_size[nvtx::cudart] == NVTX_CBID_CUDART_SIZE &&
              nvtx::module_size[nvtx::core2] == NVTX_CBID_CORE2_SIZE &&
              nvtx::module_size[nvtx::sync] == NVTX_CBID_SYNC_SIZE);
static_assert(int{nvtx::domain_range_push} == NVTX_CBID_CORE2_DomainRangePushEx &&
              int{nvtx::domain_range_pop} == NVTX_CBID_CORE2_DomainRangePop &&
              int{nvtx::domain_create} == NVTX_CBID_CORE2_DomainCreateA);
static_assert(sizeof(nvtx::Callbacks) == sizeof(NvtxExportTableCallbacks) &&
              offsetof(nvtx::Callbacks, module_functions) ==
                  offsetof(NvtxExportTableCallbacks, GetModuleFunctionTable));
static_assert(sizeof(nvtx::VersionInfo) == sizeof(NvtxExportTableVersionInfo) &&
              offsetof(nvtx::VersionInfo, version) == offsetof(NvtxExportTableVersionInfo, version) &&
              offsetof(nvtx::VersionInfo, set_version_of_profiler) ==
                  offsetof(NvtxExportTableVersionInfo, SetInjectionNvtxVersion));
static_assert(sizeof(nvtx::Event) == sizeof(nvtxEventAttributes_t) &&
              offsetof(nvtx::Event, bytes) == offsetof(nvtxEventAttributes_t, size) &&
              offsetof(nvtx::Event, category) == offsetof(nvtxEventAttributes_t, category) &&
              offsetof(nvtx::Event, color_type) == offsetof(nvtxEventAttributes_t, colorType) &&
              offsetof(nvtx::Event, payload) == offsetof(nvtxEventAttributes_t, payload) &&
              offsetof(nvtx::Event, message_type) == offsetof(nvtxEventAttributes_t, messageType) &&
              offsetof(nvtx::Event, message) == offsetof(nvtxEventAttributes_t, message));
static_assert(nvtx::Event{}.message_type == NVTX_MESSAGE_TYPE_ASCII);
#endif

TEST(Nvtx, NothingIsNamedWhereNobodyListens) {
  if (NvtxRange::is_attached()) GTEST_SKIP() << "a profiler is attached";
  const NvtxRange range([]() -> std::string {
    ADD_FAILURE() << "named";
    return "";
  });
}

}  // namespace
}  // namespace camshaft::nvtx_test
