// The life cycle of CANN's dump API in C: init, set, finalize, each in its turn. That of Python, with the same texts, is
// python/sonde/acl.py: it starts a session of the package.
#include <array>
#include <string>

#include "ground/base/mutex.h"
#include "record/capture/api.h"

namespace {

enum class Stage { none, initialised, set };

struct Life {
  sonde::Mutex mutex;
  Stage stage GUARDED_BY(mutex) = Stage::none;
  std::string message GUARDED_BY(mutex);
};

Life& life() {
  static auto& state = *new Life;  // never destroyed: threads may outlive the statics
  return state;
}

int refuse(Life& state, int code, std::string message) REQUIRES(state.mutex) {
  state.message = std::move(message);
  return code;
}

constexpr const char* kRepeated = "EP0008: This API cannot be called repeatedly";

}  // namespace

extern "C" int sonde_init_dump(void) {
  Life& state = life();
  const sonde::Lock lock(state.mutex);
  if (state.stage != Stage::none) return refuse(state, SONDE_ERROR_DUMP_ALREADY_RUN, kRepeated);
  if (sonde::api_table()->active() != 0) {
    return refuse(state, SONDE_ERROR_DUMP_ALREADY_RUN,
                  std::string(kRepeated) + ": a dump was enabled when the program began");
  }
  state.stage = Stage::initialised;
  state.message.clear();
  return SONDE_SUCCESS;
}

extern "C" int sonde_set_dump(const char* config_path) {
  Life& state = life();
  const sonde::Lock lock(state.mutex);
  if (config_path == nullptr) return refuse(state, SONDE_ERROR_INVALID_PARAM, "EP0007: dumpCfgPath is null");
  if (state.stage == Stage::none) {
    return refuse(state, SONDE_ERROR_DUMP_NOT_RUN, "EP0008: aclmdlInitDump must be executed before aclmdlSetDump");
  }
  if (state.stage == Stage::set) return refuse(state, SONDE_ERROR_DUMP_ALREADY_RUN, kRepeated);
  std::array<char, 16384> text{};
  const int failed = sonde::api_table()->start(config_path, text.data(), text.size());
  state.message = text.data();  // warnings, where it was right
  if (failed != 0) return SONDE_ERROR_INVALID_DUMP_CONFIG;
  state.stage = Stage::set;
  return SONDE_SUCCESS;
}

extern "C" int sonde_finalize_dump(void) {
  Life& state = life();
  const sonde::Lock lock(state.mutex);
  if (state.stage == Stage::none) {
    return refuse(state, SONDE_ERROR_DUMP_NOT_RUN, "EP0008: aclmdlInitDump must be executed before aclmdlFinalizeDump");
  }
  std::array<char, 16384> text{};
  if (state.stage == Stage::set) sonde::api_table()->stop(text.data(), text.size());
  state.message = text.data();
  state.stage = Stage::none;
  return SONDE_SUCCESS;
}

extern "C" const char* sonde_dump_message(void) {
  thread_local std::string mine;
  Life& state = life();
  const sonde::Lock lock(state.mutex);
  mine = state.message;
  return mine.c_str();
}
