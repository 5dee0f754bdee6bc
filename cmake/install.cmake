# The installed files: the static library, the public headers, the program actor-node, and a package
# configuration, so that find_package(troupe) gives troupe::troupe elsewhere. Our compiler flags are
# not exported.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(troupe_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/troupe)

install(TARGETS troupe EXPORT troupe-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/troupe DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.hpp")
install(EXPORT troupe-targets NAMESPACE troupe:: DESTINATION ${troupe_package_dir})
install(TARGETS actor-node troupe_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

configure_package_config_file(cmake/troupe-config.cmake.in "${CMAKE_CURRENT_BINARY_DIR}/troupe-config.cmake"
  INSTALL_DESTINATION ${troupe_package_dir})
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file("${CMAKE_CURRENT_BINARY_DIR}/troupe-config-version.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/troupe-config.cmake" "${CMAKE_CURRENT_BINARY_DIR}/troupe-config-version.cmake"
  cmake/FindCAF.cmake cmake/Finddnnl.cmake cmake/Findutf8proc.cmake cmake/plugins.cmake DESTINATION ${troupe_package_dir})
