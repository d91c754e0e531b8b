# Files for C and C++ programs: `cmake --install build --component development --prefix /usr/local`. Then
# find_package(sonde) gives sonde::sonde, and pkg-config knows sonde.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
install(TARGETS sonde LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
install(DIRECTORY include/sonde DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development FILES_MATCHING PATTERN "*.h")

set(SONDE_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/sonde)
configure_package_config_file(cmake/sondeConfig.cmake.in ${PROJECT_BINARY_DIR}/sondeConfig.cmake
  INSTALL_DESTINATION ${SONDE_CMAKE_DIR} PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/sondeConfigVersion.cmake COMPATIBILITY SameMinorVersion)
file(RELATIVE_PATH SONDE_PREFIX_FROM_PC "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
configure_file(cmake/sonde.pc.in ${PROJECT_BINARY_DIR}/sonde.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/sondeConfig.cmake ${PROJECT_BINARY_DIR}/sondeConfigVersion.cmake
  DESTINATION ${SONDE_CMAKE_DIR} COMPONENT development)
install(FILES ${PROJECT_BINARY_DIR}/sonde.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
