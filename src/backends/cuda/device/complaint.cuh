// How kernels say that their data is wrong.

/// In the host's memory, which nobody touches as long as all is well. Of several complaints any one is reported.
struct Report {
  u32 layer, axis;  ///< layer 0: none
  i64 index, size;
};

struct Complaint {
  Report* report;  ///< null: somebody else complains
  u64 layer;

  __device__ __noinline__ void out_of_range(i64 index, i64 size, u32 axis) const {
    if (!report) return;
    report->axis = axis;
    report->index = index;
    report->size = size;
    report->layer = u32(layer);
  }
};

/// `index` counted from the front; -1, and a complaint, when it is not in [-size, size).
__device__ __forceinline__ i64 checked_index(i64 index, i64 size, u32 axis, const Complaint& complaint) {
  if (index >= -size && index < size) return index < 0 ? index + size : index;
  complaint.out_of_range(index, size, axis);
  return -1;
}

/// Number `at` of a tensor of i64 (`wide`) or i32.
__device__ __forceinline__ i64 index_at(const void* indices, u32 wide, i64 at) {
  return wide ? static_cast<const i64*>(indices)[at] : static_cast<const i32*>(indices)[at];
}
