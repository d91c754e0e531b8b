# sonde::torch, included by sonde-config.cmake: the recorder of programs with libtorch, compiled here against the Torch
# of this project. A program that links it is recorded where SONDE_CONFIG names a configuration.
include(CMakeFindDependencyMacro)
if(NOT Torch_FOUND)
  find_dependency(Torch)
endif()
enable_language(CXX)

if(NOT TARGET sonde::torch)
  file(GLOB SONDE_TORCH_SOURCES "${SONDE_ADAPTER_SOURCES}/torch/*.cpp" "${SONDE_ADAPTER_SOURCES}/libtorch/*.cpp")
  # Of Python's adapter; libtorch's has others for them, or does without (python/sonde/torch_installation.py has the same list).
  list(FILTER SONDE_TORCH_SOURCES EXCLUDE REGEX "/torch/(compiled_python|ddp_buckets|first_model|frames|memory|model_tensors|module|place|python_program)[.]cpp$")
  # Two files for the compiler: most of the time is for reading libtorch's headers.
  foreach(source IN LISTS SONDE_TORCH_SOURCES)
    file(STRINGS "${source}" with_autograd REGEX "#include <torch/(csrc|nn|optim)/")
    if(with_autograd)
      set_source_files_properties("${source}" PROPERTIES UNITY_GROUP with_autograd)
    else()
      set_source_files_properties("${source}" PROPERTIES UNITY_GROUP others)
    endif()
  endforeach()
  add_library(sonde_torch SHARED ${SONDE_TORCH_SOURCES})
  add_library(sonde::torch ALIAS sonde_torch)
  target_include_directories(sonde_torch PRIVATE "${SONDE_ADAPTER_SOURCES}/libtorch" "${SONDE_ADAPTER_SOURCES}/torch")
  target_compile_features(sonde_torch PRIVATE cxx_std_20)
  # NDEBUG changes the layout of RecordFunction: it must be the same as in the released libtorch.
  target_compile_definitions(sonde_torch PRIVATE NDEBUG)
  target_compile_options(sonde_torch PRIVATE -O2)
  set_target_properties(sonde_torch PROPERTIES CXX_VISIBILITY_PRESET hidden UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  target_link_libraries(sonde_torch PRIVATE ${TORCH_LIBRARIES} sonde::sonde)
  # Before libtorch in the order in which symbols are looked for, and needed although the program calls nothing of it.
  target_link_options(sonde_torch INTERFACE "LINKER:--no-as-needed" "$<TARGET_FILE:sonde_torch>")
  target_link_libraries(sonde_torch INTERFACE sonde::sonde)
endif()
