#include "ground/device/compiler.h"

#include <algorithm>
#include <vector>

#include "ground/device/kernel_text.h"
#include "ground/device/library.h"

namespace sonde::device {
namespace {

// The functions that NVRTC and hiprtc both have; the prefix distinguishes their names.
struct Functions {
  using Program = void*;
  int (*create)(Program*, const char* text, const char* name, int headers, const char* const* header_texts,
                const char* const* header_names);
  int (*compile)(Program, int count, const char* const* options);
  int (*log_bytes)(Program, std::size_t*);
  int (*log)(Program, char*);
  int (*code_bytes)(Program, std::size_t*);
  int (*code)(Program, char*);
  int (*destroy)(Program*);
  const char* (*error_text)(int);
};

// PyTorch's package has NVRTC or hiprtc as something that its libcaffe2_nvrtc.so depends on. Where a program has one
// already, or the system, that one is taken.
std::vector<std::string> names_of_compiler(Runtime runtime) {
  const bool cuda = runtime == Runtime::cuda;
  std::vector<std::string> names = loaded_libraries(cuda ? "libnvrtc.so" : "libhiprtc.so");
  for (const char* const neighbour :
       {cuda ? "libtorch_cuda.so" : "libtorch_hip.so", cuda ? "libc10_cuda.so" : "libc10_hip.so"}) {
    for (const std::string& path : loaded_libraries(neighbour)) {
      names.push_back(path.substr(0, path.rfind('/') + 1) + "libcaffe2_nvrtc.so");
    }
  }
  if (cuda) {
    names.insert(names.end(), {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"});
  } else {
    names.insert(names.end(), {"libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so"});
  }
  return names;
}

Status find_functions(const Library& library, Runtime runtime, bool ptx, Functions& out) {
  const std::string prefix = runtime == Runtime::cuda ? "nvrtc" : "hiprtc";
  const std::string code = runtime == Runtime::rocm ? "GetCode" : ptx ? "GetPTX" : "GetCUBIN";
  Status status;
  const auto find = [&](const std::string& name, auto*& function) {
    if (status) status = library.find((prefix + name).c_str(), function);
  };
  find("CreateProgram", out.create);
  find("CompileProgram", out.compile);
  find("GetProgramLogSize", out.log_bytes);
  find("GetProgramLog", out.log);
  find(code + "Size", out.code_bytes);
  find(code, out.code);
  find("DestroyProgram", out.destroy);
  find("GetErrorString", out.error_text);
  return status;
}

// The newest architecture of NVRTC that is not newer than the device's.
Result<int> nearest_architecture(const Library& library, int wanted) {
  int (*count_of)(int*) = nullptr;
  int (*list)(int*) = nullptr;
  if (const Status status = library.find("nvrtcGetNumSupportedArchs", count_of); !status) return status.error();
  if (const Status status = library.find("nvrtcGetSupportedArchs", list); !status) return status.error();
  int count = 0, nearest = 0;
  if (count_of(&count) != 0 || count <= 0)
    return Error{ErrorCode::unsupported, library.name() + " lists no architectures"};
  std::vector<int> known(static_cast<std::size_t>(count));
  if (list(known.data()) != 0) return Error{ErrorCode::unsupported, library.name() + " lists no architectures"};
  for (const int one : known) {
    if (one <= wanted) nearest = std::max(nearest, one);
  }
  if (nearest != 0) return nearest;
  return Error{ErrorCode::unsupported, library.name() + " compiles for sm_" + std::to_string(std::ranges::min(known)) +
                                           " and newer, and the device is sm_" + std::to_string(wanted)};
}

// The first lines of the compiler's log, as one.
std::string log_of(const Functions& functions, Functions::Program program) {
  constexpr std::size_t kMost = 300;
  std::size_t bytes = 0;
  if (functions.log_bytes(program, &bytes) != 0 || bytes <= 1) return "no log";
  std::string log(bytes, '\0');
  if (functions.log(program, log.data()) != 0) return "no log";
  log.resize(std::min(log.find('\0'), kMost));
  std::ranges::replace(log, '\n', ' ');
  return log;
}

Result<std::string> compile(const Functions& functions, const std::vector<std::string>& options) {
  const auto failure = [&](const char* what, int code) {
    return Error{ErrorCode::unsupported, std::string(what) + ": " + functions.error_text(code)};
  };
  const char* const header_name = "ground/device/kernel_layout.h";
  Functions::Program program = nullptr;
  if (const int code = functions.create(&program, kKernelText, "statistics.cu", 1, &kKernelLayoutText, &header_name)) {
    return failure("it takes no program", code);
  }
  std::vector<const char*> texts;
  for (const std::string& option : options) texts.push_back(option.c_str());
  const auto finish = [&](auto result) {
    functions.destroy(&program);
    return Result<std::string>(std::move(result));
  };
  if (const int code = functions.compile(program, static_cast<int>(texts.size()), texts.data())) {
    Error error = failure("it does not compile the kernel", code);
    error.message += ": " + log_of(functions, program);
    return finish(std::move(error));
  }
  std::size_t bytes = 0;
  if (const int code = functions.code_bytes(program, &bytes)) return finish(failure("it gives no code", code));
  std::string machine_code(bytes, '\0');
  if (const int code = functions.code(program, machine_code.data())) return finish(failure("it gives no code", code));
  return finish(std::move(machine_code));
}

}  // namespace

Result<std::string> compile_kernel(Runtime runtime, int architecture) {
  const bool cuda = runtime == Runtime::cuda;
  const auto library = Library::open(names_of_compiler(runtime));
  if (!library) {
    return Error{library.error().code, std::string("cannot open ") + (cuda ? "NVRTC" : "hiprtc") +
                                           ", which PyTorch's package for " + runtime_name(runtime) + " brings (" +
                                           library.error().message + ")"};
  }
  bool ptx = false;
  std::vector<std::string> options = {"-std=c++17"};
  if (cuda) {
    const Result<int> nearest = nearest_architecture(*library, architecture);
    if (!nearest) return nearest.error();
    ptx = *nearest != architecture;
    options.push_back((ptx ? "--gpu-architecture=compute_" : "--gpu-architecture=sm_") + std::to_string(*nearest));
    options.emplace_back("--fmad=false");
  } else {
    options.emplace_back("-ffp-contract=off");
  }
  Functions functions{};
  if (const Status status = find_functions(*library, runtime, ptx, functions); !status) return status.error();
  Result<std::string> code = compile(functions, options);
  if (code) return code;
  return Error{code.error().code, "'" + library->name() + "': " + code.error().message};
}

}  // namespace sonde::device
