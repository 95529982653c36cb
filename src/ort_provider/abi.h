// The binary interface between ONNX Runtime and execution providers that it loads as plugins, as far as one that
// compiles graphs uses it; written from its public documentation. All structs begin with the version of
// the interface that they were filled in for, and the host calls nothing that came later.
#pragma once

#include <cstddef>
#include <cstdint>

#include "plugin/ort/abi.h"

namespace camshaft::ort_provider {

/// What the host's objects are to us: pointers.
struct OrtDataType;
struct OrtEpDevice;
struct OrtEpGraphSupportInfo;
struct OrtExternalInitializerInfo;
struct OrtGraph;
struct OrtHardwareDevice;
struct OrtKernelContext;
struct OrtKernelDef;
struct OrtKernelDefBuilder;
struct OrtKernelInfo;
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
struct OrtSyncStream;
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
/// OrtMemoryInfoDeviceType.
enum MemoryPlace : int32_t { host_memory, gpu_memory, fpga_memory, npu_memory };
/// OrtDeviceMemoryType and OrtAllocatorType, as far as they are used.
enum DeviceMemoryKind : int32_t { default_memory };
enum AllocatorKind : int32_t { device_allocator };
/// OrtMemType: where a kernel has an operand.
enum OperandMemory : int32_t { host_input = -2, host_output = -1 };
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

/// OrtKernelImpl: a kernel of one node.
struct KernelImpl {
  uint32_t version = interface_version;
  uint32_t flags = 0;  ///< ONNX Runtime's own
  OrtStatus* (*compute)(KernelImpl* self, OrtKernelContext* context) = nullptr;
  void (*release)(KernelImpl* self) = nullptr;
  OrtStatus* (*pack_weight)(KernelImpl* self, const OrtValue* tensor, int input, ort::Allocator* allocator, void* cache,
                            bool* is_packed) = nullptr;
  OrtStatus* (*share_weight)(KernelImpl* self, const void* const* buffers, const size_t* sizes, size_t count,
                             int input) = nullptr;
};
using CreateKernel = OrtStatus* (*)(void* state, const OrtKernelInfo* info, KernelImpl** kernel);

/// OrtDataTransferImpl: copies between the host's memory and a provider's. Streams are null without them.
struct DataTransfer {
  uint32_t version = interface_version;
  void (*release)(DataTransfer* self) = nullptr;
  bool (*can_copy)(const DataTransfer* self, const OrtMemoryDevice* from, const OrtMemoryDevice* to) = nullptr;
  OrtStatus* (*copy)(DataTransfer* self, const OrtValue** from, OrtValue** to, OrtSyncStream** streams,
                     size_t count) = nullptr;
};

/// OrtSyncNotificationImpl: a moment in a stream.
struct SyncNotification {
  uint32_t version = interface_version;
  void (*release)(SyncNotification* self) = nullptr;
  OrtStatus* (*activate)(SyncNotification* self) = nullptr;
  OrtStatus* (*wait_on_device)(SyncNotification* self, OrtSyncStream* consumer) = nullptr;
  OrtStatus* (*wait_on_host)(SyncNotification* self) = nullptr;
};

/// OrtSyncStreamImpl: a stream of a device.
struct SyncStream {
  uint32_t version = interface_version;
  void (*release)(SyncStream* self) = nullptr;
  void* (*handle)(SyncStream* self) = nullptr;
  OrtStatus* (*create_notification)(SyncStream* self, SyncNotification** notification) = nullptr;
  OrtStatus* (*flush)(SyncStream* self) = nullptr;
  OrtStatus* (*on_run_end)(SyncStream* self) = nullptr;
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
  OrtStatus* (*create_stream)(Ep* self, const OrtMemoryDevice* device, SyncStream** stream) = nullptr;
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
  OrtStatus* (*create_data_transfer)(EpFactory* self, DataTransfer** transfer) = nullptr;
  bool (*is_stream_aware)(const EpFactory* self) = nullptr;
  OrtStatus* (*create_stream)(EpFactory* self, const OrtMemoryDevice* device, const OrtKeyValuePairs* options,
                              SyncStream** stream) = nullptr;
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
  ort::ApiFunction add_single_node, node_name;
  OrtStatus* (*add_allocator_info)(OrtEpDevice* device, const OrtMemoryInfo* memory);
  const OrtMemoryDevice* (*device_of_info)(const OrtMemoryInfo* memory);
  const OrtMemoryDevice* (*device_of_value)(const OrtValue* value);
  bool (*are_equal)(const OrtMemoryDevice* a, const OrtMemoryDevice* b);
  MemoryPlace (*place_of)(const OrtMemoryDevice* device);
  DeviceMemoryKind (*memory_kind_of)(const OrtMemoryDevice* device);
  uint32_t (*vendor_of)(const OrtMemoryDevice* device);
  uint32_t (*number_of)(const OrtMemoryDevice* device);
  ort::ApiFunction streams[3];
  OrtStatus* (*create_hardware_device)(HardwareKind kind, uint32_t vendor, uint32_t number, const char* vendor_name,
                                       const OrtKeyValuePairs* metadata, OrtHardwareDevice** device);
  void (*release_hardware_device)(OrtHardwareDevice* device);
  OrtStatus* (*create_kernel_registry)(OrtKernelRegistry** registry);
  void (*release_kernel_registry)(OrtKernelRegistry* registry);
  OrtStatus* (*add_kernel)(OrtKernelRegistry* registry, const OrtKernelDef* definition, CreateKernel create,
                           void* state);
  OrtStatus* (*create_kernel_def_builder)(OrtKernelDefBuilder** builder);
  void (*release_kernel_def_builder)(OrtKernelDefBuilder* builder);
  OrtStatus* (*set_operator_type)(OrtKernelDefBuilder* builder, const char* op);
  OrtStatus* (*set_domain)(OrtKernelDefBuilder* builder, const char* domain);
  OrtStatus* (*set_since_version)(OrtKernelDefBuilder* builder, int first, int last);
  OrtStatus* (*set_provider)(OrtKernelDefBuilder* builder, const char* provider);
  OrtStatus* (*set_input_memory)(OrtKernelDefBuilder* builder, size_t input, OperandMemory memory);
  OrtStatus* (*set_output_memory)(OrtKernelDefBuilder* builder, size_t output, OperandMemory memory);
  OrtStatus* (*add_type_constraint)(OrtKernelDefBuilder* builder, const char* name, const OrtDataType* const* types,
                                    size_t count);
  ort::ApiFunction aliases[2];
  OrtStatus* (*build_kernel_def)(OrtKernelDefBuilder* builder, OrtKernelDef** definition);
  void (*release_kernel_def)(OrtKernelDef* definition);
  ort::ApiFunction questions[6];  // about a definition
  OrtStatus* (*tensor_type)(ort::ElementType element, const OrtDataType** type);
};

/// OrtModelEditorApi, as far as it is called.
struct ModelEditorApi {
  ort::ApiFunction types_and_values[6];
  OrtStatus* (*create_node)(const char* op_type, const char* domain, const char* name, const char* const* inputs,
                            size_t input_count, const char* const* outputs, size_t output_count, OrtOpAttr** attributes,
                            size_t attribute_count, OrtNode** node);
};

}  // namespace camshaft::ort_provider
