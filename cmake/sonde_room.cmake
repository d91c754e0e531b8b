# sonde_room(NAME [SOURCES ...] [DEPENDS ...]): one folder of src/ as a static library `sonde_NAME`; without SOURCES all of
# its .cpp.
# sonde_test(NAME SOURCES ... DEPENDS ...): one GoogleTest binary, one ctest entry.

set(SONDE_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 warns of overlapping and endless copies in `"x" + std::string`, wrongly (gcc.gnu.org/PR105651).
  list(APPEND SONDE_WARNINGS -Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread -Wno-array-bounds)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13
   AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14)
  list(APPEND SONDE_WARNINGS -Wno-dangling-reference)  # GCC 13 takes every reference that a lambda returns for one into it
endif()

# The sanitizers of SONDE_SANITIZE, for one target and everything that is linked to it.
function(sonde_sanitize target)
  if(SONDE_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${SONDE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_compile_definitions(${target} PRIVATE _GLIBCXX_ASSERTIONS)  # an element beyond size(), a missing value
    if(SONDE_SANITIZE MATCHES undefined)
      # Not in the group: a number that does not fit its integer. Not worth a third of the compile time: ASan finds
      # null, and -O0 knows no sizes of objects.
      target_compile_options(${target} PRIVATE -fsanitize=float-cast-overflow -fno-sanitize=null,object-size,vptr)
      if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # as much again; scripts/fuzz, with Clang, looks at it
        target_compile_options(${target} PRIVATE -fno-sanitize=alignment)
      endif()
    endif()
    target_link_options(${target} PUBLIC -fsanitize=${SONDE_SANITIZE})
  endif()
endfunction()

function(sonde_target_defaults target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  # A tenth of GCC's time is for memory that it collects; it may have half a gigabyte more.
  target_compile_options(${target} PRIVATE "$<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-expand=1000;--param=ggc-min-heapsize=1000000>")
  target_compile_options(${target} PRIVATE ${SONDE_WARNINGS} -pthread)  # for all, so that they share compiled headers
  target_compile_definitions(${target} PRIVATE SONDE_VERSION="${PROJECT_VERSION}")
  target_include_directories(${target} PUBLIC "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src" "${SONDE_CONTRACT}")
  target_link_options(${target} PRIVATE -Wl,-z,relro,-z,now)  # no table of functions can be written while it runs
  sonde_sanitize(${target})
endfunction()

# Headers that most files of a room include, and that take the compiler longest.
set(SONDE_ROOM_HEADERS <algorithm> <filesystem> <functional> <memory> <optional> <string> <unordered_map> <vector> <fmt/format.h>)

# sonde_compiled_headers(NAME HEADERS ... [OPTIONS ...] [DEPENDS ...]): headers compiled once, for all targets with the
# same options: target_precompile_headers(TARGET REUSE_FROM NAME).
function(sonde_compiled_headers name)
  cmake_parse_arguments(SHARED "" "" "HEADERS;OPTIONS;DEPENDS" ${ARGN})
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/${name}.cpp" CONTENT "")  # written once
  add_library(${name} OBJECT "${PROJECT_BINARY_DIR}/${name}.cpp")
  sonde_target_defaults(${name})
  target_compile_options(${name} PRIVATE ${SHARED_OPTIONS})
  target_precompile_headers(${name} PRIVATE ${SHARED_HEADERS})
  target_link_libraries(${name} PRIVATE ${SHARED_DEPENDS})
endfunction()

# Files of a target are compiled several at a time, because most of the work is in headers and templates. A file with
# its own options is compiled alone. -DSONDE_UNITY=OFF compiles every file alone, for quick rounds in one file. REVERSED
# joins them in the other order: what a file uses and only one before it defines or includes is an error there (scripts/lint).
set(SONDE_UNITY ON CACHE STRING "Compile files of a target together: ON, OFF or REVERSED")
# About how many. More of them take less of the processor in all, and more memory (2 GB for 20), and longer when one has changed.
set(SONDE_UNITY_FILES 20 CACHE STRING "Files of a target that are compiled together")
function(sonde_unity target)
  if(SONDE_UNITY)
    if(SONDE_UNITY STREQUAL "REVERSED")
      get_target_property(sources ${target} SOURCES)
      list(REVERSE sources)
      set_property(TARGET ${target} PROPERTY SOURCES ${sources})
    endif()
    # Parts of about that many, all of one size: each part reads the headers again.
    get_target_property(sources ${target} SOURCES)
    list(LENGTH sources count)
    math(EXPR parts "(${count} + ${SONDE_UNITY_FILES} / 2) / ${SONDE_UNITY_FILES}")
    if(parts EQUAL 0)
      set(parts 1)
    endif()
    math(EXPR files "(${count} + ${parts} - 1) / ${parts}")
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${files})
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # accepts a source that is included as a header
      target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
    endif()
  endif()
endfunction()

function(sonde_room name)
  cmake_parse_arguments(ROOM "OWN_FLAGS" "" "SOURCES;DEPENDS" ${ARGN})
  if(NOT ROOM_SOURCES)
    file(GLOB ROOM_SOURCES CONFIGURE_DEPENDS *.cpp)
  endif()
  add_library(sonde_${name} STATIC ${ROOM_SOURCES})
  sonde_target_defaults(sonde_${name})
  target_link_libraries(sonde_${name} PUBLIC ${ROOM_DEPENDS})
  if(NOT ROOM_OWN_FLAGS)
    if(NOT TARGET sonde_room_headers)
      sonde_compiled_headers(sonde_room_headers HEADERS ${SONDE_ROOM_HEADERS})
    endif()
    target_precompile_headers(sonde_${name} REUSE_FROM sonde_room_headers)
    sonde_unity(sonde_${name})
  endif()
  # A fifth less of the compiler's time, for rooms that neither touch each element nor run beside a training.
  if(CMAKE_CURRENT_SOURCE_DIR MATCHES "/src/((plan|ask|face|guests)/|read/(catalog|index)$)")
    target_compile_options(sonde_${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
endfunction()

function(sonde_test name)
  cmake_parse_arguments(TEST "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${TEST_SOURCES})
  sonde_target_defaults(${name})
  set(optimisation -O0)  # compiled more often than run
  target_compile_options(${name} PRIVATE ${optimisation})
  if(NOT TARGET sonde_test_headers)
    sonde_compiled_headers(sonde_test_headers
      HEADERS <gmock/gmock.h> <gtest/gtest.h> OPTIONS ${optimisation} DEPENDS GTest::gtest_main GTest::gmock)
    set_target_properties(sonde_test_headers PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  endif()
  target_precompile_headers(${name} REUSE_FROM sonde_test_headers)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  sonde_unity(${name})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests/engine")
  target_link_libraries(${name} PRIVATE ${TEST_DEPENDS} GTest::gtest_main GTest::gmock)
  add_test(NAME ${name} COMMAND ${name})
endfunction()
