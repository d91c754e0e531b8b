// A libnvrtc.so.13 whose code is the text of the program and of its header: for the emulated libcuda.so.1. The real NVRTC
// has its own test (compiler_test.cpp).
#include <cstring>
#include <string>

namespace {

struct Program {
  std::string text;
};

enum : int { kSuccess = 0, kInvalidInput = 3, kInvalidOption = 5 };

}  // namespace

#define EMULATED extern "C" __attribute__((visibility("default")))

EMULATED const char* nvrtcGetErrorString(int /*code*/) { return "NVRTC_ERROR_INVALID_INPUT"; }

EMULATED int nvrtcGetNumSupportedArchs(int* count) {
  *count = 2;
  return kSuccess;
}

EMULATED int nvrtcGetSupportedArchs(int* list) {
  list[0] = 75;
  list[1] = 90;
  return kSuccess;
}

EMULATED int nvrtcCreateProgram(void** program, const char* text, const char* /*name*/, int headers,
                                const char* const* header_texts, const char* const* header_names) {
  if (headers != 1) return kInvalidInput;
  const std::string include = "#include \"" + std::string(header_names[0]) + "\"";
  if (std::strstr(text, include.c_str()) == nullptr) return kInvalidInput;
  *program = new Program{std::string(header_texts[0]) + text};
  return kSuccess;
}

EMULATED int nvrtcCompileProgram(void* /*program*/, int count, const char* const* options) {
  for (int i = 0; i < count; ++i) {
    if (std::strcmp(options[i], "--gpu-architecture=sm_90") == 0) return kSuccess;
  }
  return kInvalidOption;
}

EMULATED int nvrtcGetProgramLogSize(void* /*program*/, std::size_t* bytes) {
  *bytes = 1;
  return kSuccess;
}

EMULATED int nvrtcGetProgramLog(void* /*program*/, char* log) {
  log[0] = '\0';
  return kSuccess;
}

EMULATED int nvrtcGetCUBINSize(void* program, std::size_t* bytes) {
  *bytes = static_cast<Program*>(program)->text.size() + 1;
  return kSuccess;
}

EMULATED int nvrtcGetCUBIN(void* program, char* code) {
  const std::string& text = static_cast<Program*>(program)->text;
  std::memcpy(code, text.c_str(), text.size() + 1);
  return kSuccess;
}

EMULATED int nvrtcDestroyProgram(void** program) {
  delete static_cast<Program*>(*program);
  *program = nullptr;
  return kSuccess;
}
