#include "base/communicator.h"

namespace camshaft {

namespace {

thread_local Communicator* current_communicator = nullptr;

}  // namespace

CommunicatorScope::CommunicatorScope(Communicator* communicator) : before_(current_communicator) {
  current_communicator = communicator;
}

CommunicatorScope::~CommunicatorScope() {
  current_communicator = before_;
}

Communicator* CommunicatorScope::current() {
  return current_communicator;
}

}  // namespace camshaft
