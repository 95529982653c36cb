// A cuDNN that starts and then refuses all that is asked of it, as one whose parts are of another version does.
#include "backends/cuda/libraries/dnn_api.h"
#include "library.h"

using namespace camshaft::cuda::api;

#define EMULATOR_API extern "C" EMULATOR_SHARED

namespace {

constexpr Result sublibrary_loading_failed = 1008;
int something = 0;  // for handles to point at

}  // namespace

EMULATOR_API Result cudnnCreate(Handle* library) {
  *library = reinterpret_cast<Handle>(&something);
  return success;
}

EMULATOR_API Result cudnnGetProperty(LibraryProperty which, int* value) {
  *value = which == major_version ? 9 : which == minor_version ? 99 : 0;
  return success;
}

EMULATOR_API Result cudnnSetStream(Handle, Handle) {
  return success;
}

EMULATOR_API Result cudnnBackendCreateDescriptor(DnnKind, Handle* descriptor) {
  *descriptor = reinterpret_cast<Handle>(&something);
  return success;
}

EMULATOR_API Result cudnnBackendDestroyDescriptor(Handle) {
  return success;
}

EMULATOR_API Result cudnnBackendFinalize(Handle) {
  return sublibrary_loading_failed;
}

EMULATOR_API Result cudnnBackendSetAttribute(Handle, DnnAttribute, DnnValue, int64_t, const void*) {
  return success;
}

EMULATOR_API Result cudnnBackendGetAttribute(Handle, DnnAttribute, DnnValue, int64_t, int64_t*, void*) {
  return sublibrary_loading_failed;
}

EMULATOR_API Result cudnnBackendExecute(Handle, Handle, Handle) {
  return sublibrary_loading_failed;
}
