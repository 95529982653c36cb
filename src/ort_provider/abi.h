// The binary interface between ONNX Runtime and execution providers that it loads as plugins, as far as one that
// compiles graphs for the host uses it; written from its public documentation. All structs begin with the version of
// the interface that they were filled in for, and the host calls nothing that came later.
#pragma once

#include <cstddef>
#include <cstdint>

#include "plugin/ort/abi.h"

namespace camshaft::ort_provider {

/// What the host's objects are to us: pointers.
struct OrtEpDevice;
struct OrtEpGraphSupportInfo;
struct OrtExternalInitializerInfo;
struct OrtGraph;
struct OrtHardwareDevice;
struct OrtKernelContext;
struct OrtKernelRegistry;
struct OrtKeyValuePairs;
struct OrtLogger;
struct OrtMemoryDevice;
struct OrtMemoryInfo;
struct OrtNode;
struct OrtNodeComputeContext;
struct OrtOpAttr;
struct OrtRunOptions;
struct OrtSessionOptions;
struct OrtStatus;
struct OrtTensorTypeAndShapeInfo;
struct OrtTypeInfo;
struct OrtValue;
struct OrtValueInfo;
struct OrtModelMetadata;

/// The oldest version that has all that is used here: ONNX Runtime 1.24.
constexpr uint32_t interface_version = 24;

/// ONNXType.
enum ValueKind : int32_t {
  unknown_kind,
  tensor_kind,
  sequence_kind,
  map_kind,
  opaque_kind,
  sparse_kind,
  optional_kind
};
/// OrtHardwareDeviceType.
enum HardwareKind : int32_t { cpu_hardware, gpu_hardware, npu_hardware };
/// OrtLoggingLevel.
enum Severity : int32_t { verbose_message, info_message, warning_message, error_message };
/// OrtCompiledModelCompatibility.
enum Compatibility : int32_t { not_applicable, best_fit, better_compiled_again, cannot_run };

/// OrtNodeFusionOptions.
struct FusionOptions {
  uint32_t version = interface_version;
  bool drop_constant_initializers = false;
};

/// OrtNodeComputeInfo: how a fused node is run.
struct NodeComputeInfo {
  uint32_t version = interface_version;
  OrtStatus* (*create_state)(NodeComputeInfo* self, OrtNodeComputeContext* context, void** state) = nullptr;
  OrtStatus* (*compute)(NodeComputeInfo* self, void* state, OrtKernelContext* context) = nullptr;
  void (*release_state)(NodeComputeInfo* self, void* state) = nullptr;
};

/// OrtEp: the provider of one session. What may be null is.
struct Ep {
  uint32_t version = interface_version;
  const char* (*name)(const Ep* self) = nullptr;
  OrtStatus* (*get_capability)(Ep* self, const OrtGraph* graph, OrtEpGraphSupportInfo* support) = nullptr;
  OrtStatus* (*compile)(Ep* self, const OrtGraph** graphs, const OrtNode** fused_nodes, size_t count,
                        NodeComputeInfo** infos, OrtNode** context_nodes) = nullptr;
  void (*release_compute_infos)(Ep* self, NodeComputeInfo** infos, size_t count) = nullptr;
  OrtStatus* (*preferred_layout)(Ep* self, int32_t* layout) = nullptr;
  OrtStatus* (*converts_layout)(Ep* self, const char* domain, const char* op, int32_t layout, int* converts) = nullptr;
  OrtStatus* (*set_dynamic_options)(Ep* self, const char* const* keys, const char* const* values,
                                    size_t count) = nullptr;
  OrtStatus* (*on_run_start)(Ep* self, const OrtRunOptions* options) = nullptr;
  OrtStatus* (*on_run_end)(Ep* self, const OrtRunOptions* options, bool synchronize) = nullptr;
  OrtStatus* (*create_allocator)(Ep* self, const OrtMemoryInfo* memory, ort::Allocator** allocator) = nullptr;
  OrtStatus* (*create_stream)(Ep* self, const OrtMemoryDevice* device, void** stream) = nullptr;
  const char* (*compatibility)(Ep* self, const OrtGraph* graph) = nullptr;
  OrtStatus* (*kernel_registry)(Ep* self, const OrtKernelRegistry** registry) = nullptr;
  OrtStatus* (*runs_concurrently)(Ep* self, bool* does) = nullptr;
};

/// OrtEpFactory: what makes providers. What may be null is.
struct EpFactory {
  uint32_t version = interface_version;
  const char* (*name)(const EpFactory* self) = nullptr;
  const char* (*vendor)(const EpFactory* self) = nullptr;
  OrtStatus* (*supported_devices)(EpFactory* self, const OrtHardwareDevice* const* devices, size_t count,
                                  OrtEpDevice** ep_devices, size_t most, size_t* given) = nullptr;
  OrtStatus* (*create_ep)(EpFactory* self, const OrtHardwareDevice* const* devices,
                          const OrtKeyValuePairs* const* metadata, size_t count, const OrtSessionOptions* options,
                          const OrtLogger* logger, Ep** ep) = nullptr;
  void (*release_ep)(EpFactory* self, Ep* ep) = nullptr;
  uint32_t (*vendor_id)(const EpFactory* self) = nullptr;
  const char* (*library_version)(const EpFactory* self) = nullptr;
  OrtStatus* (*validate_compatibility)(EpFactory* self, const OrtHardwareDevice* const* devices, size_t count,
                                       const char* compatibility, Compatibility* verdict) = nullptr;
  OrtStatus* (*create_allocator)(EpFactory* self, const OrtMemoryInfo* memory, const OrtKeyValuePairs* options,
                                 ort::Allocator** allocator) = nullptr;
  void (*release_allocator)(EpFactory* self, ort::Allocator* allocator) = nullptr;
  /// Must be there, and may give none.
  OrtStatus* (*create_data_transfer)(EpFactory* self, void** transfer) = nullptr;
  bool (*is_stream_aware)(const EpFactory* self) = nullptr;
  OrtStatus* (*create_stream)(EpFactory* self, const OrtMemoryDevice* device, const OrtKeyValuePairs* options,
                              void** stream) = nullptr;
  OrtStatus* (*incompatibility_details)(EpFactory* self, const OrtHardwareDevice* device, void* details) = nullptr;
  OrtStatus* (*create_importer)(EpFactory* self, const OrtEpDevice* device, void** importer) = nullptr;
  OrtStatus* (*custom_domain_count)(EpFactory* self, size_t* count) = nullptr;
  OrtStatus* (*custom_domains)(EpFactory* self, void** domains, size_t count) = nullptr;
};

/// OrtEpApi, as far as it is called.
struct EpApi {
  OrtStatus* (*create_ep_device)(EpFactory* factory, const OrtHardwareDevice* device, const OrtKeyValuePairs* metadata,
                                 const OrtKeyValuePairs* options, OrtEpDevice** ep_device);
  void (*release_ep_device)(OrtEpDevice* device);
  OrtStatus* (*add_nodes_to_fuse)(OrtEpGraphSupportInfo* support, const OrtNode* const* nodes, size_t count,
                                  const FusionOptions* options);
};

/// OrtModelEditorApi, as far as it is called.
struct ModelEditorApi {
  ort::ApiFunction types_and_values[6];
  OrtStatus* (*create_node)(const char* op_type, const char* domain, const char* name, const char* const* inputs,
                            size_t input_count, const char* const* outputs, size_t output_count, OrtOpAttr** attributes,
                            size_t attribute_count, OrtNode** node);
};

}  // namespace camshaft::ort_provider
