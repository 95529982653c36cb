// The structures in which Python libraries hand each other tensors without a copy: DLPack 1,
// https://dmlc.github.io/dlpack. Their layout is a standard; version 0 has the tensor without a version before it.
#pragma once

#include <cstdint>

namespace camshaft::dlpack {

/// DLDeviceType
enum DeviceType : int32_t { cpu = 1, cuda = 2, cuda_pinned = 3, cuda_managed = 13 };

/// DLDataTypeCode
enum TypeCode : uint8_t {
  signed_integer = 0,
  unsigned_integer = 1,
  floating = 2,
  brain_float = 4,
  boolean = 6,
  float8_e4m3fn = 10,
  float8_e4m3fnuz = 11,
  float8_e5m2 = 12,
  float8_e5m2fnuz = 13,
  float8_e8m0fnu = 14,
};

struct Device {
  DeviceType type = cpu;
  int32_t ordinal = 0;
};

struct DataType {
  uint8_t code = 0, bits = 0;
  uint16_t lanes = 1;
  bool operator==(const DataType&) const = default;
};

/// DLTensor
struct Tensor {
  void* data = nullptr;
  Device device;
  int32_t rank = 0;
  DataType dtype;
  int64_t* shape = nullptr;
  int64_t* strides = nullptr;  ///< in elements; null: row-major without gaps
  uint64_t byte_offset = 0;
};

/// DLManagedTensor: what a capsule named "dltensor" holds.
struct Managed {
  Tensor tensor;
  void* owner = nullptr;
  void (*release)(Managed*) = nullptr;
};

/// DLManagedTensorVersioned: what a capsule named "dltensor_versioned" holds.
struct ManagedVersioned {
  uint32_t major = 1, minor = 0;
  void* owner = nullptr;
  void (*release)(ManagedVersioned*) = nullptr;
  uint64_t flags = 0;  ///< bit 0: may not be written
  Tensor tensor;
};
constexpr uint64_t read_only = 1;

}  // namespace camshaft::dlpack
