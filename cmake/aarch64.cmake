# Cross compilation for 64-bit ARM with Debian's compiler and its arm64 libraries (scripts/setup.sh --aarch64); tests run
# under QEMU's user-mode emulation.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
# Programs find their loader and libraries where arm64 packages put them.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64)
