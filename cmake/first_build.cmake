# camshaft_first_build(): how the preset native compiles, whose kernels are for the processor at hand alone. Half of the time
# of a build is that of the optimiser, and models do not run faster for it: what runs them keeps -O2, what makes engines
# has -O1, and what reads models and talks to people has none. Kernels run as fast as with -O3 (the minima of five
# models lie within 2 % on an AVX-512 machine) and compile in 0.7 of its time. An engine takes 1.4 times as long to build.
function(camshaft_first_build)
  foreach(component base reference runtime)
    target_compile_options(camshaft_${component} PRIVATE $<$<CONFIG:Release>:-O2>)
  endforeach()
  foreach(component onnx plugin cuda engine quantize builder api ort_provider)
    target_compile_options(camshaft_${component} PRIVATE $<$<CONFIG:Release>:-O0>)
  endforeach()
  target_compile_options(camshaft_cpu PRIVATE
    "$<$<CONFIG:Release>:-O2;-ftree-vectorize;$<$<CXX_COMPILER_ID:GNU>:-fvect-cost-model=dynamic>>")
  # GCC 12 finds them in its own AVX-512 intrinsics (_mm512_undefined_pd), whose names Highway uses.
  target_compile_options(camshaft_cpu PRIVATE
    $<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized> $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_precompile_headers(camshaft_cpu PRIVATE ${PROJECT_SOURCE_DIR}/src/backends/cpu/kernels/precompiled.h)
  get_target_property(sources camshaft_cpu SOURCES)
  foreach(source ${sources})
    get_source_file_property(own ${source} COMPILE_OPTIONS)
    if(own)  # a precompiled header is for the same options alone
      set_property(SOURCE ${source} PROPERTY SKIP_PRECOMPILE_HEADERS ON)
    endif()
  endforeach()
endfunction()
