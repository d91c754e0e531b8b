# sonde_room(NAME SOURCES ... [DEPENDS ...]): one folder of src/ as a static library `sonde_NAME`.
# sonde_test(NAME SOURCES ... DEPENDS ...): one GoogleTest binary, one ctest entry.

set(SONDE_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 sees overlapping copies in `"x" + std::string` where there are none (gcc.gnu.org/PR105651).
  list(APPEND SONDE_WARNINGS -Wno-restrict)
endif()

function(sonde_target_defaults target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_compile_options(${target} PRIVATE ${SONDE_WARNINGS})
  target_compile_definitions(${target} PRIVATE SONDE_VERSION="${PROJECT_VERSION}")
  target_include_directories(${target} PUBLIC "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src")
  if(SONDE_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${SONDE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(${target} PUBLIC -fsanitize=${SONDE_SANITIZE})
  endif()
endfunction()

function(sonde_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(sonde_${name} STATIC ${ROOM_SOURCES})
  sonde_target_defaults(sonde_${name})
  target_link_libraries(sonde_${name} PUBLIC ${ROOM_DEPENDS})
endfunction()

function(sonde_test name)
  cmake_parse_arguments(TEST "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${TEST_SOURCES})
  sonde_target_defaults(${name})
  if(SONDE_SANITIZE)
    set(optimisation -O0)
  else()
    set(optimisation -O1)
  endif()
  # Compiled more often than run; and GCC 12 sees out-of-bounds copies of std::string where there are none.
  target_compile_options(${name} PRIVATE ${optimisation} -Wno-array-bounds -Wno-stringop-overflow)
  target_precompile_headers(${name} PRIVATE <gmock/gmock.h> <gtest/gtest.h>)
  target_link_libraries(${name} PRIVATE ${TEST_DEPENDS} GTest::gtest_main GTest::gmock)
  add_test(NAME ${name} COMMAND ${name})
endfunction()
