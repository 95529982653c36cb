# What is shipped needs no library but glibc's own, and on x86-64 no glibc newer than 2.28 (manylinux_2_28: Debian 10,
# Ubuntu 20.04, RHEL 8 and all later), wherever it is built. It is linked with libraries that have the symbols of that
# version alone, and cmake/glibc/ has what is missing there; libstdc++ and all other libraries are inside.
set(CAMSHAFT_GLIBC 2.28)

# The sanitizers' own libraries need the glibc that they were built with.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64" AND NOT CAMSHAFT_SANITIZE)
  set(glibc_interface ${PROJECT_BINARY_DIR}/glibc-${CAMSHAFT_GLIBC})
  add_custom_command(
    OUTPUT ${glibc_interface}/libc.so
    COMMAND ${CMAKE_COMMAND} -D CXX=${CMAKE_CXX_COMPILER} -D READELF=${CMAKE_READELF} -D NEWEST=${CAMSHAFT_GLIBC}
            -D FOLDER=${glibc_interface} -P ${PROJECT_SOURCE_DIR}/cmake/glibc/link_interface.cmake
    DEPENDS ${PROJECT_SOURCE_DIR}/cmake/glibc/link_interface.cmake
    COMMENT "Making the link interface of glibc ${CAMSHAFT_GLIBC}"
    VERBATIM)
  add_custom_target(glibc_interface DEPENDS ${glibc_interface}/libc.so)
  add_library(glibc_newer_functions OBJECT cmake/glibc/newer_functions.cpp)
  add_library(glibc_program_start OBJECT cmake/glibc/program_start.cpp)
endif()
add_library(glibc_standard_error OBJECT cmake/glibc/standard_error.cpp)

# camshaft_portable(TARGET [EXPORTS file]): links a shared library, a module or a program so. The first two export what a
# version script names alone: the libraries inside must not take the place of those of others in the process, nor these
# theirs. Programs for other processors, and under sanitizers, are linked as usual.
function(camshaft_portable target)
  cmake_parse_arguments(PORTABLE "" "EXPORTS" "" ${ARGN})
  get_target_property(type ${target} TYPE)
  # What nothing refers to, of the libraries inside above all: 0.7 MB of the wheel's 21.6.
  if(NOT CAMSHAFT_SANITIZE)
    target_link_options(${target} PRIVATE -Wl,--gc-sections)
  endif()
  if(type STREQUAL EXECUTABLE)
    if(NOT TARGET glibc_interface)
      return()
    endif()
    target_link_options(${target} PRIVATE -Wl,--wrap=__libc_start_main)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:glibc_program_start>)
  else()
    target_link_options(${target} PRIVATE -Wl,--version-script=${PORTABLE_EXPORTS} -Wl,--wrap=stderr)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:glibc_standard_error>)
    set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${PORTABLE_EXPORTS})
  endif()
  if(NOT CAMSHAFT_SANITIZE)  # whose runtime looks at what is thrown, and finds it in the one library that all share
    target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc)
  endif()
  if(TARGET glibc_interface)
    add_dependencies(${target} glibc_interface)
    target_link_options(${target} PRIVATE -L${glibc_interface})
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:glibc_newer_functions>)
    set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${glibc_interface}/libc.so)
  endif()
endfunction()
