// How kernels say that their data is wrong.

__device__ __noinline__ void complain(const Complaint& complaint, i64 index, i64 size, u32 axis) {
  ComplaintReport* const report = complaint.report;
  if (!report) return;
  report->axis = axis;
  report->index = index;
  report->size = size;
  report->layer = u32(complaint.layer);
}

/// `index` counted from the front; -1, and a complaint, when it is not in [-size, size).
__device__ __forceinline__ i64 checked_index(i64 index, i64 size, u32 axis, const Complaint& complaint) {
  if (index >= -size && index < size) return index < 0 ? index + size : index;
  complain(complaint, index, size, axis);
  return -1;
}

/// Number `at` of a tensor of i64 (`wide`) or i32.
__device__ __forceinline__ i64 index_at(const void* indices, u32 wide, i64 at) {
  return wide ? static_cast<const i64*>(indices)[at] : static_cast<const i32*>(indices)[at];
}
