// sonde._core: the C ABI of sonde.h as Python functions; catalog.cpp adds dumps. Only converts.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyses.h"
#include "catalog.h"
#include "contract/names.h"
#include "messages.h"
#include "sonde/configuration.h"
#include "sonde/sonde.h"
#include "text_caster.h"

namespace nb = nanobind;

namespace {

// Enough for all errors and warnings of a configuration file; a longer text is cut at the end.
using Text = std::array<char, 64 * 1024>;

const struct sonde_api& engine() {
  const struct sonde_api* api = sonde_api(SONDE_API_VERSION);
  const char* why_not = sonde_api_mismatch(SONDE_API_VERSION, sizeof(struct sonde_api));
  if (why_not != nullptr) throw nb::import_error(why_not);
  return *api;
}

// (ok, all errors and warnings)
nb::tuple start(const std::string& config_path) {
  Text text{};
  int status = 0;
  {
    const nb::gil_scoped_release release;
    status = engine().start(config_path.c_str(), text.data(), text.size());
  }
  return nb::make_tuple(status == 0, std::string(text.data()));
}

// Waits for the writer, which needs no Python: other threads may run meanwhile.
std::string stop() {
  Text text{};
  const nb::gil_scoped_release release;
  engine().stop(text.data(), text.size());
  return text.data();
}

std::optional<std::string> take_failure() {
  Text text{};
  if (engine().take_failure(text.data(), text.size()) == 0) return std::nullopt;
  return text.data();
}

// Waits for the writer.
std::int64_t write_ring(const std::string& why) {
  const nb::gil_scoped_release release;
  return engine().write_ring(why.c_str());
}

nb::dict host_settings() {
  sonde_host_settings settings{};
  settings.size = sizeof settings;
  Text text{};
  if (engine().host_settings(&settings, text.data(), text.size()) != 0) throw nb::value_error(text.data());
  nb::dict result;
  result["path"] = nb::str(settings.path);
  result["first_step"] = settings.first_step;
  result["inputs_after"] = settings.inputs_after != 0;
  return result;
}

// JSON of MindSpore's dialect.
std::string configuration(const std::string& path, const std::string& iteration, const std::string& saved_data,
                          const std::vector<std::string>& kernels, const std::vector<std::string>& statistics,
                          const std::string& net_name, std::uint64_t initial_iteration, std::uint32_t devices) {
  return sonde::text_of(sonde::Configuration{.path = path,
                                             .net_name = net_name,
                                             .iteration = iteration,
                                             .saved_data = saved_data,
                                             .kernels = kernels,
                                             .statistics = statistics,
                                             .requests = {},
                                             .initial_iteration = initial_iteration,
                                             .devices = devices});
}

// --- a summary ---

sonde_tensor host_tensor(std::uintptr_t address, std::uint32_t dtype) {
  sonde_tensor tensor{};
  tensor.size = sizeof tensor;
  tensor.dtype = dtype;
  tensor.data = reinterpret_cast<const void*>(address);
  tensor.device = SONDE_DEVICE_CPU;
  return tensor;
}

void summary_dense(std::uint32_t series, std::uintptr_t address, std::uint32_t dtype, std::int64_t elements) {
  sonde_tensor tensor = host_tensor(address, dtype);
  tensor.shape = &elements;
  tensor.ndim = 1;
  engine().summary_tensor(series, &tensor);
}

void summary_strided(std::uint32_t series, std::uintptr_t address, std::uint32_t dtype,
                     const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& strides) {
  sonde_tensor tensor = host_tensor(address, dtype);
  tensor.shape = shape.data();
  tensor.strides = strides.data();
  tensor.ndim = static_cast<std::uint32_t>(shape.size());
  engine().summary_tensor(series, &tensor);
}

// Of another device, or of no type that has statistics.
void summary_unread(std::uint32_t series) {
  sonde_tensor tensor{};
  tensor.size = sizeof tensor;
  tensor.device = SONDE_DEVICE_OTHER;
  engine().summary_tensor(series, &tensor);
}

bool summary_again(std::uint32_t series, std::uint32_t earlier) { return engine().summary_again(series, earlier) != 0; }

std::uint32_t summary_series(std::uint32_t kind, const std::string& name, const std::string& type, std::uint32_t dtype,
                             const std::vector<std::int64_t>& shape) {
  sonde_tensor tensor = host_tensor(0, dtype);
  tensor.shape = shape.data();
  tensor.ndim = static_cast<std::uint32_t>(shape.size());
  return engine().summary_series(kind, name.c_str(), type.c_str(), &tensor);
}

void summary_place(std::uint32_t rank, std::uint32_t device) {
  sonde_run_info info{};
  info.size = sizeof info;
  info.rank = rank;
  info.device = device;
  engine().set_run_info(&info);
}

void add_summary(nb::module_& module) {
  module.def("keeps_summary", [] { return engine().keeps_summary() != 0; });
  module.def("summary_place", &summary_place, nb::arg("rank"), nb::arg("device"));
  module.def(
      "summary_step",
      [](std::uint64_t step, std::uint64_t nanoseconds) {
        return static_cast<unsigned>(engine().summary_step(step, nanoseconds));
      },
      nb::arg("step"), nb::arg("nanoseconds"));
  module.def("summary_series", &summary_series, nb::arg("kind"), nb::arg("name"), nb::arg("type"), nb::arg("dtype"),
             nb::arg("shape"));
  module.def("summary_dense", &summary_dense, nb::arg("series"), nb::arg("address"), nb::arg("dtype"),
             nb::arg("elements"));
  module.def("summary_strided", &summary_strided, nb::arg("series"), nb::arg("address"), nb::arg("dtype"),
             nb::arg("shape"), nb::arg("strides"));
  module.def("summary_again", &summary_again, nb::arg("series"), nb::arg("earlier"));
  module.def("summary_unread", &summary_unread, nb::arg("series"));
}

}  // namespace

NB_MODULE(_core, module) {
  add_catalog(module);
  add_analyses(module);
  add_messages(module);
  add_summary(module);
  module.attr("version") = engine().engine;
  module.def("configuration", &configuration, nb::arg("path"), nb::kw_only(), nb::arg("iteration") = "all",
             nb::arg(sonde::names::saved_data), nb::arg("kernels") = std::vector<std::string>(),
             nb::arg("statistics") = std::vector<std::string>(), nb::arg(sonde::names::net_name) = "Net",
             nb::arg("initial_iteration") = 0, nb::arg("devices") = 8);
  module.def(
      "dump_path_of", [](const std::string& configuration) { return sonde::dump_path_of(configuration).string(); },
      nb::arg("configuration"));
  module.def("start", &start, nb::arg("config_path"));
  module.def("stop", &stop);
  module.def("active", [] { return engine().active() != 0; });
  module.def("take_failure", &take_failure);
  module.def("manual_step", [] { return static_cast<unsigned>(engine().manual_step()); });
  module.def(
      "dump_switch", [](bool on) { return static_cast<unsigned>(engine().set_recording(on ? 1 : 0)); }, nb::arg("on"));
  module.def(
      "set_step", [](std::uint64_t step) { return static_cast<unsigned>(engine().set_step(step)); }, nb::arg("step"));
  module.def("is_over", [] { return engine().capture() == SONDE_CAPTURE_OVER; });
  module.def("records_exceptions", [] { return engine().records_exceptions() != 0; });
  module.def("has_ring", [] { return engine().has_ring() != 0; });
  module.def("write_ring", &write_ring, nb::arg("why"));
  module.def("host_settings", &host_settings);
  module.def(
      "flag_scope",
      [](const std::string& scope, const std::string& type, bool enabled) {
        engine().flag_scope(scope.c_str(), type.c_str(), enabled ? 1 : 0);
      },
      nb::arg("scope"), nb::arg("type"), nb::arg("enabled"));
  module.def("forked_child", [] { engine().forked_child(); });
  // The function table, for adapters that are loaded into this process.
  module.def("api", [] { return reinterpret_cast<std::uintptr_t>(&engine()); });
}
