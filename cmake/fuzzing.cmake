# For the preset `fuzz`: coverage of every object. Only the fuzzers themselves are linked with libFuzzer's main.
add_compile_options(-fsanitize=fuzzer-no-link)
add_link_options(-fsanitize=fuzzer-no-link)

# The kernels are most of the compile time. They get one instruction set, AVX2 (for which Highway asks for AES too), no
# optimisation (a tenth of the time, 6 s and not 56 for depthwise convolutions), and AddressSanitizer alone: what a model
# can do wrong is chosen before them, what is left is where they read and write.
function(camshaft_lean_kernels target)
  camshaft_kernels_for(${target} -march=haswell -maes)
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "/cpu/kernels/")
  set_property(SOURCE ${sources} APPEND PROPERTY COMPILE_OPTIONS -O0 -fno-sanitize=undefined -fno-sanitize=fuzzer-no-link
               -Wno-unknown-pragmas)  # GCC ivdep
endfunction()

# The code for GPUs is linked, and no input reaches it without one: it needs no sanitizer, at half the compile time.
function(camshaft_plain_code target)
  target_compile_options(${target} PRIVATE -fno-sanitize=all -fno-sanitize=fuzzer-no-link)
endfunction()
