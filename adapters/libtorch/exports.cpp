// The functions that sonde/libtorch.h finds by name.
#include "capture.h"
#include "names.h"
#include "recording.h"
#include "scopes.h"
#include "setup.h"

#define SONDE_EXPORTED extern "C" __attribute__((visibility("default")))

SONDE_EXPORTED void sonde_torch_open_scope(const char* name, const char* file, unsigned line, const char* function) {
  sonde_torch::open_scope(name, file, line, function);
}

SONDE_EXPORTED void sonde_torch_close_scope() { sonde_torch::close_scope(); }

SONDE_EXPORTED int sonde_torch_start(const char* config) { return sonde_torch::start_recording(config) ? 1 : 0; }

SONDE_EXPORTED void sonde_torch_stop() { sonde_torch::stop_recording(); }

SONDE_EXPORTED void sonde_torch_step() {
  if (sonde_torch::is_inert()) return;
  sonde_torch::api().manual_step();
  sonde_torch::set_capture();
  if (sonde_torch::capturing()) sonde_torch::report_names();
  sonde_torch::look_after_step();
}
