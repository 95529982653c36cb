# The library `camshaft`: libcamshaft.so, which exports the C interface and what ONNX Runtime looks for in the library of
# an execution provider, and one static archive of all components and of the third-party archives behind them, so that a
# program which links it needs nothing else but threads.
include(CMakePackageConfigHelpers)

set(components base ir reference onnx plugin optimize compile cpu cuda engine runtime quantize builder api ort_provider)
set(archive ${PROJECT_BINARY_DIR}/libcamshaft.a)
set(members "")
set(component_targets "")
foreach(component ${components})
  get_target_property(type camshaft_${component} TYPE)
  if(type STREQUAL STATIC_LIBRARY)
    list(APPEND members $<TARGET_FILE:camshaft_${component}>)
    list(APPEND component_targets camshaft_${component})
  endif()
endforeach()
list(APPEND members ${XXHASH_ARCHIVE} ${PNG_ARCHIVE} ${JPEG_ARCHIVE} ${WEBP_ARCHIVE} ${MINIZIP_ARCHIVE}
     ${ZLIB_ARCHIVE})
string(REPLACE ";" "$<SEMICOLON>" member_list "${members}")
add_custom_command(
  OUTPUT ${archive}
  COMMAND ${CMAKE_COMMAND} -D AR=${CMAKE_AR} -D ARCHIVE=${archive} -D "MEMBERS=${member_list}"
          -P ${PROJECT_SOURCE_DIR}/cmake/merge_archives.cmake
  DEPENDS ${component_targets} ${PROJECT_SOURCE_DIR}/cmake/merge_archives.cmake
  COMMENT "Merging ${archive}"
  VERBATIM)
add_custom_target(camshaft_archive ALL DEPENDS ${archive})

# The shared library. Its symbols, of one version, are those of exported_symbols.txt.
set(CAMSHAFT_ABI 1)  # raised when a program of before would no longer run
set(exported_symbols ${PROJECT_SOURCE_DIR}/src/api/exported_symbols.txt)
set(version_script ${PROJECT_BINARY_DIR}/camshaft.map)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${exported_symbols})
file(STRINGS ${exported_symbols} symbols)
list(APPEND symbols CreateEpFactories ReleaseEpFactory)  # which ONNX Runtime looks for
list(JOIN symbols ";\n    " symbols)
file(CONFIGURE OUTPUT ${version_script} CONTENT "CAMSHAFT_@CAMSHAFT_ABI@ {\n  global:\n    @symbols@;\n  local:\n    *;\n};\n"
     @ONLY)
add_library(camshaft_shared SHARED $<TARGET_OBJECTS:camshaft_api> $<TARGET_OBJECTS:camshaft_ort_provider>)
target_link_libraries(camshaft_shared PRIVATE camshaft_builder camshaft_plugin)
target_include_directories(camshaft_shared INTERFACE ${PROJECT_SOURCE_DIR}/include)
target_compile_features(camshaft_shared INTERFACE cxx_std_20)
# It stays loaded after dlclose(): worker threads and the handlers of forks would go on in code that is gone.
target_link_options(camshaft_shared PRIVATE -Wl,--no-undefined -Wl,-z,nodelete)
set_target_properties(camshaft_shared PROPERTIES OUTPUT_NAME camshaft VERSION ${CAMSHAFT_ABI} SOVERSION ${CAMSHAFT_ABI}
                                                 LINKER_LANGUAGE CXX EXPORT_NAME camshaft)
camshaft_portable(camshaft_shared EXPORTS ${version_script})

# What programs in this tree link: the same names as in an install tree, with the public headers alone.
add_library(camshaft::camshaft ALIAS camshaft_shared)
add_library(camshaft_static INTERFACE)
add_library(camshaft::static ALIAS camshaft_static)
target_include_directories(camshaft_static INTERFACE ${PROJECT_SOURCE_DIR}/include)
set_property(TARGET camshaft_static PROPERTY INTERFACE_LINK_LIBRARIES $<LINK_ONLY:camshaft_api>)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/camshaft)
configure_package_config_file(cmake/camshaftConfig.cmake.in ${PROJECT_BINARY_DIR}/camshaftConfig.cmake
                              INSTALL_DESTINATION ${package_folder} PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/camshaftConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${archive} DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library)
install(TARGETS camshaft_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library)
install(DIRECTORY include/camshaft DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library)
install(FILES ${PROJECT_BINARY_DIR}/camshaftConfig.cmake ${PROJECT_BINARY_DIR}/camshaftConfigVersion.cmake
        DESTINATION ${package_folder} COMPONENT library)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT library)
