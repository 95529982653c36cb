# The folder of a component below src/ and tests/: its name, but for backends, which share one.
function(camshaft_component_folder name result)
  if(IS_DIRECTORY ${PROJECT_SOURCE_DIR}/src/backends/${name})
    set(${result} backends/${name} PARENT_SCOPE)
  else()
    set(${result} ${name} PARENT_SCOPE)
  endif()
endfunction()

# camshaft_joined(TARGET): compiles CAMSHAFT_JOINED_SOURCES sources of a target at a time as one. A cold
# build takes less than half of the time then: reading headers, not code, is half of what most sources cost. What is
# local to a source must have a name of its own in its component for that; tests have a namespace for each file.
# Sources with options of their own stay apart, and so do kernels, of which each is compiled for several processors.
function(camshaft_joined target)
  if(CAMSHAFT_JOINED_SOURCES)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${CAMSHAFT_JOINED_SOURCES})
    get_target_property(sources ${target} SOURCES)
    list(FILTER sources INCLUDE REGEX "/cpu/kernels/|/contract/(product_tiles|dot_rows)\\.cpp$")
    set_property(SOURCE ${sources} PROPERTY SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()

# camshaft_kernels_for(TARGET OPTIONS...): its kernels for one instruction set, that of the options, in place of several.
function(camshaft_kernels_for target)
  target_compile_options(${target} PRIVATE ${ARGN} -DHWY_COMPILE_ONLY_STATIC)
endfunction()

# camshaft_component(NAME [DEPENDS components...] [LINK libraries...]): the component's **.cpp as the static library
# camshaft_NAME.
function(camshaft_component name)
  cmake_parse_arguments(COMPONENT "" "" "DEPENDS;LINK" ${ARGN})
  camshaft_component_folder(${name} folder)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${folder}/*.cpp)
  if(NOT sources)
    add_library(camshaft_${name} INTERFACE)
    set(scope INTERFACE)
  else()
    add_library(camshaft_${name} STATIC ${sources})
    camshaft_joined(camshaft_${name})
    set(scope PUBLIC)
  endif()
  target_include_directories(camshaft_${name} ${scope} ${PROJECT_SOURCE_DIR}/src)
  list(TRANSFORM COMPONENT_DEPENDS PREPEND camshaft_)
  target_link_libraries(camshaft_${name} ${scope} ${COMPONENT_DEPENDS} ${COMPONENT_LINK})
endfunction()

# camshaft_component_tests(NAME LINK libraries... [WITHOUT folders...]): the **.cpp of the component's tests, but for those
# folders, as one GoogleTest program, test_NAME.
function(camshaft_component_tests name)
  cmake_parse_arguments(TESTS "" "" "LINK;WITHOUT" ${ARGN})
  camshaft_component_folder(${name} component)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/${component}/*.cpp)
  foreach(folder ${TESTS_WITHOUT})
    list(FILTER sources EXCLUDE REGEX "/tests/${component}/${folder}/")
  endforeach()
  if(NOT sources)
    return()
  endif()
  add_executable(test_${name} ${sources})
  camshaft_joined(test_${name})
  target_link_libraries(test_${name} PRIVATE ${TESTS_LINK} GTest::gtest_main)
  # 0.7 of the compile time is left, and what is tested has its own options. Those of kernels compute so much themselves
  # that they take half as long again to run.
  if(NOT name STREQUAL cpu)
    target_compile_options(test_${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
  if(CAMSHAFT_FUZZ)  # a quarter of the compile time, which the sanitizers make long; no fuzzer sees the tests
    target_compile_options(test_${name} PRIVATE -O0 -fno-sanitize=fuzzer-no-link)
  endif()
  target_include_directories(test_${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  add_test(NAME ${name} COMMAND test_${name})
endfunction()

# camshaft_flatbuffer(COMPONENT SCHEMA): generates SCHEMA_generated.h from src/COMPONENT/SCHEMA.fbs for that component
# alone.
function(camshaft_flatbuffer component schema)
  set(folder ${PROJECT_BINARY_DIR}/generated/${component})
  set(input ${PROJECT_SOURCE_DIR}/src/${component}/${schema}.fbs)
  set(output ${folder}/${schema}_generated.h)
  file(MAKE_DIRECTORY ${folder})
  add_custom_command(OUTPUT ${output} COMMAND ${FLATC} --cpp --scoped-enums -o ${folder} ${input} DEPENDS ${input})
  target_sources(camshaft_${component} PRIVATE ${output})
  target_include_directories(camshaft_${component} SYSTEM PRIVATE ${folder})
endfunction()

# camshaft_source_hash(COMPONENT NAME): generates source_hash.h with the macro NAME, which changes with every source of that
# component: what was measured with other kernels says nothing about these.
function(camshaft_source_hash component name)
  set(folder ${PROJECT_BINARY_DIR}/generated/${component})
  camshaft_component_folder(${component} own)
  set(own ${PROJECT_SOURCE_DIR}/src/${own})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${own}/*.cpp ${own}/*.h ${own}/*.cuh)
  file(MAKE_DIRECTORY ${folder})
  add_custom_command(
    OUTPUT ${folder}/source_hash.h
    COMMAND ${CMAKE_COMMAND} -D FOLDER=${own} -D OUTPUT=${folder}/source_hash.h -D NAME=${name}
            -P ${PROJECT_SOURCE_DIR}/cmake/hash_sources.cmake
    DEPENDS ${sources} ${PROJECT_SOURCE_DIR}/cmake/hash_sources.cmake)
  target_sources(camshaft_${component} PRIVATE ${folder}/source_hash.h)
  target_include_directories(camshaft_${component} SYSTEM PRIVATE ${folder})
endfunction()

# camshaft_embed_texts(COMPONENT FOLDER): generates device_texts.h for that component alone, with the text of every file in
# the component's FOLDER, without what is the host's (see embed_text.cmake).
function(camshaft_embed_texts component texts)
  set(folder ${PROJECT_BINARY_DIR}/generated/${component})
  camshaft_component_folder(${component} own)
  file(GLOB files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${own}/${texts}/*)
  file(MAKE_DIRECTORY ${folder})
  add_custom_command(
    OUTPUT ${folder}/device_texts.h
    COMMAND ${CMAKE_COMMAND} "-DFILES=${files}" -D OUTPUT=${folder}/device_texts.h -D NAMESPACE=camshaft::${component}::device -D BARE=ON
            -P ${PROJECT_SOURCE_DIR}/cmake/embed_text.cmake
    DEPENDS ${files} ${PROJECT_SOURCE_DIR}/cmake/embed_text.cmake VERBATIM)
  target_sources(camshaft_${component} PRIVATE ${folder}/device_texts.h)
  target_include_directories(camshaft_${component} SYSTEM PRIVATE ${folder})
endfunction()
