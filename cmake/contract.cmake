# contract/ declares each name that leaves the process. C++ and Python are made in the build folder, what people read in the
# source tree, each file only where it differs; a mistake in contract/ stops the build with its file and line.
set(SONDE_CONTRACT "${PROJECT_BINARY_DIR}/contract")
file(GLOB_RECURSE contract_files CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/contract/*.toml" "${PROJECT_SOURCE_DIR}/tools/contract*.py")
set_property(DIRECTORY "${PROJECT_SOURCE_DIR}" APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${contract_files})
if(Python_EXECUTABLE)
  set(Python3_EXECUTABLE "${Python_EXECUTABLE}")
endif()
find_package(Python3 3.10 REQUIRED COMPONENTS Interpreter)  # tomllib is in 3.11; tomli in its place before
execute_process(
  COMMAND "${Python3_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/tools/contract.py" --write --build "${SONDE_CONTRACT}"
  COMMAND_ERROR_IS_FATAL ANY)
