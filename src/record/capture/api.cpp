// The function table of sonde.h for the one Session of the process. No exception reaches the host.
#include "record/capture/api.h"

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ground/stats/host_pool.h"
#include "ground/stats/statistics.h"
#include "plan/config/environment.h"
#include "record/capture/abi.h"
#include "record/capture/device_kernel.h"
#include "record/capture/devices.h"
#include "record/capture/run_report.h"
#include "record/capture/session.h"
#include "sonde/sonde.h"

namespace sonde {
namespace {

// Leaked on purpose: host threads may still call in while the process ends.
std::atomic<Session*> g_session{nullptr};

Session* session() { return g_session.load(std::memory_order_acquire); }

// Runs `body` with the session; an exception of ours ends the recording, never the host.
template <typename R, typename F>
R guarded(R fallback, F body) {
  Session* current = session();
  if (current == nullptr || current->failed()) return fallback;
  try {
    return body(*current);
  } catch (const std::exception& error) {
    current->fail(std::string("internal error, recording stops: ") + error.what());
  } catch (...) {
    current->fail("internal error, recording stops");
  }
  return fallback;
}

template <typename F>
void guarded_void(F body) {
  guarded(0, [&](Session& s) {
    body(s);
    return 0;
  });
}

// Runs `body` with a struct of the host and all its fields, even if the host's header is older or newer than ours.
template <typename T, typename R, typename F>
R with_struct(const T* given, R fallback, F body) {
  return guarded(fallback, [&](Session& s) {
    if (is_complete(*given)) return body(s, completed(*given));
    s.fail(too_short(*given));
    return fallback;
  });
}
template <typename T, typename F>
void with_struct_void(const T* given, F body) {
  with_struct(given, 0, [&](Session& s, const T& all) {
    body(s, all);
    return 0;
  });
}

// Messages for the user before the first step, instead of a surprise afterwards.
std::string said_at_start() {
  const std::string complaint = kernel_complaint();
  return complaint.empty() ? "" : "warning: " + complaint + "\n";
}

std::atomic<bool> g_by_environment{false};  // the session's configuration is that of the environment

constexpr const char* kSecond = "sonde is already recording in this process; call stop() first";

// Whether a session began; `text`: the errors, or the warnings.
bool begin_session(const char* config_path, std::string& text) {
  text = session() != nullptr ? kSecond : "";
  if (!text.empty()) return false;
  PlanResult result = read_plan(config_path);
  for (const Diagnostic& diagnostic : result.diagnostics) text += text_of(diagnostic, config_path) + "\n";
  if (!result.plan) return false;
  text += said_at_start();
  auto fresh = std::make_unique<Session>(std::move(*result.plan));
  Session* none = nullptr;  // another thread may have been faster
  if (!g_session.compare_exchange_strong(none, fresh.get())) {
    text = kSecond;
    return false;
  }
  static_cast<void>(fresh.release());
  return true;
}

int start(const char* config_path, char* message, std::size_t message_bytes) {
  copy_text("", message, message_bytes);
  try {
    const bool by_environment = config_path == nullptr;
    const std::string path = by_environment ? configuration_of_environment() : config_path;
    if (by_environment && path.empty()) return 1;  // nothing is to be recorded
    std::string text;
    const bool began = begin_session(path.c_str(), text);
    copy_text(text, message, message_bytes);
    if (by_environment) report_to_run(began ? "started" : "refused", began ? path : text);
    if (began) g_by_environment = by_environment;
    return began ? 0 : -1;
  } catch (const std::exception& error) {
    copy_text(std::string("cannot start: ") + error.what(), message, message_bytes);
    return -1;
  }
}

void set_run_info(const sonde_run_info* info) {
  with_struct_void(info, [](Session& s, const sonde_run_info& all) { s.set_run_info(run_info_of(all)); });
}

// A session that has ended is kept, small by then: an op of another thread may still be inside it.
void retire(Session* ended) {
  static std::mutex mutex;
  static auto& sessions = *new std::vector<Session*>;  // never destroyed: threads may outlive the statics
  const std::lock_guard lock(mutex);
  sessions.push_back(ended);
}

void stop(char* summary, std::size_t summary_bytes) {
  copy_text("", summary, summary_bytes);
  Session* current = g_session.exchange(nullptr, std::memory_order_acq_rel);
  if (current == nullptr) return;
  try {
    const std::string text = current->stop();
    // `sonde run` prints the line itself.
    const bool reported = g_by_environment.exchange(false) && report_to_run("summary", text);
    if (!reported) copy_text(text, summary, summary_bytes);
  } catch (const std::exception& error) {
    copy_text(std::string("sonde: closing the dump failed: ") + error.what(), summary, summary_bytes);
  }
  retire(current);
}

int active() {
  Session* current = session();
  return current != nullptr && !current->failed() ? 1 : 0;
}

int records_exceptions() {
  Session* current = session();
  return current != nullptr && current->plan().exception_only() ? 1 : 0;
}

int has_ring() {
  Session* current = session();
  return current != nullptr && current->plan().sonde.ring > 0 ? 1 : 0;
}

std::int64_t write_ring(const char* why) {
  return guarded(std::int64_t{-1}, [&](Session& s) {
    if (s.plan().sonde.ring == 0) return std::int64_t{-1};
    return static_cast<std::int64_t>(s.write_ring(why != nullptr ? why : "the program"));
  });
}

void forked_child() {
  // The writer thread and its locks stayed in the parent: do not use, free or forget anything.
  static std::atomic<Session*> parents;
  if (Session* current = g_session.exchange(nullptr, std::memory_order_acq_rel)) {
    current->abandon();
    parents.store(current);
  }
}

int take_failure(char* message, std::size_t message_bytes) {
  Session* current = session();
  std::string text;
  if (current == nullptr || !current->take_failure(text)) return 0;
  copy_text(text, message, message_bytes);
  return 1;
}

sonde_capture root_forward(int has_parameters, int grad_enabled, int optimizer_alive) {
  return guarded(SONDE_CAPTURE_OFF, [&](Session& s) {
    return s.root_forward(has_parameters != 0, grad_enabled != 0, optimizer_alive != 0);
  });
}
sonde_capture quiet_forward(const sonde_quiet_forward* forward) {
  return with_struct(forward, SONDE_CAPTURE_OFF,
                     [](Session& s, const sonde_quiet_forward& all) { return s.quiet_forward(quiet_forward_of(all)); });
}
sonde_capture optimizer_end() {
  return guarded(SONDE_CAPTURE_OFF, [](Session& s) { return s.optimizer_end(); });
}
sonde_capture scaler_update() {
  return guarded(SONDE_CAPTURE_OFF, [](Session& s) { return s.scaler_update(); });
}
sonde_capture manual_step() {
  return guarded(SONDE_CAPTURE_OFF, [](Session& s) { return s.manual_step(); });
}
sonde_capture autograd_started() {
  return guarded(SONDE_CAPTURE_OFF, [](Session& s) { return s.autograd_started(); });
}
sonde_capture modules_exist(int with_parameters) {
  return guarded(SONDE_CAPTURE_OFF, [&](Session& s) { return s.modules_exist(with_parameters != 0); });
}
sonde_capture capture() {
  return guarded(SONDE_CAPTURE_OFF, [](Session& s) { return s.capture(); });
}

sonde_capture set_recording(int on) {
  return guarded(SONDE_CAPTURE_OFF, [&](Session& s) { return s.set_recording(on != 0); });
}
sonde_capture step_over() {
  return guarded(SONDE_CAPTURE_OFF, [](Session& s) { return s.step_over(); });
}
sonde_capture set_step(std::uint64_t step) {
  return guarded(SONDE_CAPTURE_OFF, [&](Session& s) { return s.set_step(step); });
}

std::uint32_t site(const sonde_site* in) {
  return with_struct(in, 0u, [](Session& s, const sonde_site& all) { return s.site(site_of(all)); });
}
void name_tensor(const char* name, const sonde_tensor* tensor) {
  with_struct_void(tensor, [&](Session& s, const sonde_tensor& all) { s.name_tensor(name, tensor_of(all)); });
}
void flag_type(const char* type, int enabled) {
  guarded_void([&](Session& s) { s.flag_type(type, enabled != 0); });
}
void source_text(const char* file, const char* text) {
  guarded_void([&](Session& s) { s.source_text(file, text); });
}

// Ops in flight of one thread, reused. They do not nest in practice; a stack is cheap.
struct OpStack {
  std::vector<std::unique_ptr<Op>> ops;
  std::size_t depth = 0;
};
OpStack& ops_of_thread() {
  thread_local OpStack stack;
  return stack;
}
Op& op_of(sonde_op* op) { return *reinterpret_cast<Op*>(op); }

// `begin` fills the op and returns what to record of it.
template <typename F>
std::uint32_t begin_op(sonde_op** out, F begin) {
  return guarded(0u, [&](Session& s) {
    OpStack& stack = ops_of_thread();
    if (stack.depth == stack.ops.size()) stack.ops.push_back(std::make_unique<Op>());
    Op& op = *stack.ops[stack.depth];
    const std::uint32_t wanted = begin(s, op);
    if (wanted == 0) return 0u;
    op.session = &s;
    ++stack.depth;
    *out = reinterpret_cast<sonde_op*>(&op);
    return wanted;
  });
}

std::uint32_t op_begin(std::uint32_t site_id, sonde_graph graph, std::uint64_t attributes, sonde_op** out) {
  return begin_op(out, [&](Session& s, Op& op) { return s.ops().begin(op, site_id, graph, attributes); });
}

// An op belongs to the session that began it, even if that one was stopped meanwhile.
template <typename F>
void on_op(sonde_op* op, F body) {
  guarded_void([&](Session& s) {
    if (op_of(op).session == &s) body(s, op_of(op));
  });
}

// The tensor of an op has its strides on the stack, if the host gives none: no memory is allocated for it.
template <typename F>
void on_op(sonde_op* op, const sonde_tensor* tensor, F body) {
  with_struct_void(tensor, [&](Session& s, sonde_tensor all) {
    if (op_of(op).session != &s) return;
    std::array<std::int64_t, 8> strides;
    if (all.strides == nullptr && all.ndim <= strides.size()) {
      c_order_strides({all.shape, all.ndim}, strides);
      all.strides = strides.data();
    }
    body(s, op_of(op), tensor_of(all));
  });
}

void op_attributes(sonde_op* op, const sonde_attribute* attributes, std::uint32_t count) {
  on_op(op, [&](Session& s, Op& o) {
    std::vector<Attribute> values;
    for (std::uint32_t i = 0; i < count; ++i) values.push_back(attribute_of(attributes[i]));
    s.ops().attributes(o, std::move(values));
  });
}
void op_input_before(sonde_op* op, std::uint32_t slot, const sonde_tensor* tensor) {
  on_op(op, tensor, [&](Session& s, Op& o, const HostTensor& t) { s.ops().input_before(o, slot, t); });
}
void op_mutated(sonde_op* op, std::uint64_t storage) {
  on_op(op, [&](Session& s, Op& o) { s.ops().mutated(o, storage); });
}
void op_wrote_part(sonde_op* op, const sonde_tensor* part) {
  on_op(op, part, [](Session& s, Op& o, const HostTensor& t) { s.ops().wrote(o, t); });
}
void op_input(sonde_op* op, std::uint32_t slot, const sonde_tensor* tensor) {
  on_op(op, tensor, [&](Session& s, Op& o, const HostTensor& t) { s.ops().input(o, slot, t); });
}
void op_output(sonde_op* op, std::uint32_t slot, const sonde_tensor* tensor) {
  on_op(op, tensor, [&](Session& s, Op& o, const HostTensor& t) { s.ops().output(o, slot, t); });
}
void op_end(sonde_op* op, int failed) {
  on_op(op, [&](Session& s, Op& o) { s.ops().end(o, failed != 0); });
  OpStack& stack = ops_of_thread();
  if (stack.depth > 0) --stack.depth;
}

void op_check_output(sonde_op* op, const sonde_tensor* output) {
  on_op(op, output, [](Session& s, Op& o, const HostTensor& t) { s.ops().check_output(o, t); });
}
void op_failed(sonde_op* op) {
  on_op(op, [&](Session& s, Op& o) { s.ops().failed(o); });
}
std::uint32_t op_watch_id(sonde_op* op) {
  std::uint32_t id = 0;
  on_op(op, [&](Session&, Op& o) { id = o.record.op->id; });
  return id;
}
void op_call_number(sonde_op* op, std::uint64_t number) {
  on_op(op, [&](Session&, Op& o) { o.record.call_number = number; });
}
int op_watched(sonde_op* op, std::uint32_t watched, std::uint32_t slot, const sonde_tensor* tensor) {
  bool goes_on = false;
  on_op(op, tensor, [&](Session& s, Op& o, const HostTensor& t) { goes_on = s.ops().watched(o, watched, slot, t); });
  return goes_on ? 1 : 0;
}

sonde_op* op_defer(sonde_op* op) {
  auto rest = std::make_unique<Op>();
  on_op(op, [&](Session& s, Op& o) { rest = s.ops().defer(o); });
  OpStack& stack = ops_of_thread();
  if (stack.depth > 0) --stack.depth;
  return reinterpret_cast<sonde_op*>(rest.release());
}
void op_complete(sonde_op* deferred, int failed) {
  on_op(deferred, [&](Session& s, Op& o) { s.ops().end(o, failed != 0); });
  delete &op_of(deferred);
}

int records_graph(sonde_graph graph) {
  return guarded(0, [&](Session& s) { return s.ops().records_graph(graph) ? 1 : 0; });
}
std::uint32_t site_wants(std::uint32_t site_id, std::uint32_t count) {
  return guarded(0u, [&](Session& s) { return s.ops().site_wants(site_id, count); });
}
std::uint64_t op_keep(sonde_op* op) {
  std::uint64_t number = kNoSequence;
  on_op(op, [&](Session& s, Op& o) { number = s.ops().keep(o); });
  return number;
}
void op_input_of(sonde_op* op, std::uint32_t slot, std::uint64_t maker, std::uint32_t output) {
  on_op(op, [&](Session& s, Op& o) { s.ops().input_of(o, slot, maker, output); });
}
void op_result_at(std::uint64_t maker, std::uint32_t output, const sonde_tensor* tensor) {
  with_struct_void(tensor,
                   [&](Session& s, const sonde_tensor& all) { s.ops().result_at(maker, output, tensor_of(all)); });
}
int op_replaced(std::uint32_t site_id, const char* by) {
  return guarded(0, [&](Session& s) { return s.ops().is_replaced(site_id, by != nullptr ? by : "") ? 1 : 0; });
}
void ops_forgotten(const std::uint64_t* makers, std::size_t count) {
  guarded_void([&](Session& s) { s.ops().forget({makers, count}); });
}

void storages_freed(const std::uint64_t* storages, std::size_t count) {
  guarded_void([&](Session& s) { s.storages_freed({storages, count}); });
}

void storage_allocated(const sonde_tensor* tensor, std::uint64_t kept) {
  with_struct_void(tensor, [&](Session& s, const sonde_tensor& all) { s.storage_allocated(tensor_of(all), kept); });
}

void storage_changed(std::uint64_t storage) {
  guarded_void([&](Session& s) { s.storage_changed(storage); });
}

void step_requests(const sonde_request* requests, std::uint32_t count) {
  guarded_void([&](Session& s) {
    std::vector<StepRequest> all;
    for (const sonde_request& one : std::span(requests, count)) {
      all.push_back({.request = one.id, .row = one.row, .rows = one.rows, .position = one.position});
    }
    s.step_requests(std::move(all));
  });
}

int keeps_summary() {
  return guarded(0, [](Session& s) { return s.summary() != nullptr ? 1 : 0; });
}
std::uint32_t summary_series(std::uint32_t kind, const char* name, const char* type, const sonde_tensor* tensor) {
  return with_struct(tensor, KeptSummary::kNoSeries, [&](Session& s, const sonde_tensor& all) {
    if (s.summary() == nullptr || kind > static_cast<std::uint32_t>(SummaryKind::loss)) return KeptSummary::kNoSeries;
    const TensorView view = tensor_of(all).view;
    return s.summary()->series({.kind = static_cast<SummaryKind>(kind),
                                .name = name,
                                .type = type != nullptr ? type : "",
                                .dtype = view.dtype,
                                .shape = Dims(view.shape)});
  });
}
void summary_tensor(std::uint32_t series, const sonde_tensor* tensor) {
  with_struct_void(tensor, [&](Session& s, const sonde_tensor& all) {
    if (s.summary() == nullptr) return;
    if (Status added = s.summary()->add(series, tensor_of(all)); !added) s.fail(added.error().message);
  });
}
int summary_again(std::uint32_t series, std::uint32_t earlier) {
  return guarded(0, [&](Session& s) {
    if (s.summary() == nullptr) return 0;
    const Result<bool> added = s.summary()->add_again(series, earlier);
    if (!added) s.fail(added.error().message);
    return added && *added ? 1 : 0;
  });
}
sonde_summary_step summary_step(std::uint64_t step, std::uint64_t nanoseconds) {
  return guarded(SONDE_SUMMARY_NOTHING, [&](Session& s) {
    if (s.summary() == nullptr) return SONDE_SUMMARY_NOTHING;
    const Result<sonde_summary_step> wanted = s.summary()->begin_step(step, nanoseconds);
    if (!wanted) s.fail(wanted.error().message);
    return wanted ? *wanted : SONDE_SUMMARY_NOTHING;
  });
}

// Limited to the size of the host's struct.
void write_settings(const Plan& plan, const NamedHostSettings& settings, sonde_host_settings& out) {
  sonde_host_settings all{};
  all.size = out.size;
  all.first_step = settings.first_step;
  all.inputs_after = settings.inputs_after ? 1 : 0;
  copy_text(settings.path.string(), all.path, sizeof all.path);
  copy_text(plan.net_name, all.net_name, sizeof all.net_name);
  std::memcpy(&out, &all, std::min<std::size_t>(out.size, sizeof all));
}

int host_settings(sonde_host_settings* settings, char* message, std::size_t message_bytes) {
  copy_text("", message, message_bytes);
  return guarded(-1, [&](Session& s) {
    if (!is_complete(*settings)) {
      copy_text(too_short(*settings), message, message_bytes);
      return -1;
    }
    const Result<NamedHostSettings> read = s.named().settings();
    if (read) {
      write_settings(s.plan(), *read, *settings);
    } else {
      copy_text(read.error().message, message, message_bytes);
    }
    return read ? 0 : -1;
  });
}
int wants_step(std::uint64_t step) {
  return guarded(0, [&](Session& s) { return s.named().wants_step(step) ? 1 : 0; });
}
int wants_named(const sonde_named_op* named) {
  return with_struct(named, 0,
                     [](Session& s, const sonde_named_op& all) { return s.named().wants(named_op_of(all)) ? 1 : 0; });
}
std::uint32_t named_op_begin(const sonde_named_op* named, sonde_op** out) {
  return with_struct(named, 0u, [&](Session&, const sonde_named_op& all) {
    return begin_op(out, [&](Session& s, Op& op) { return s.named().begin(named_op_of(all), op); });
  });
}
void named_parameter(const sonde_named_op* named, const sonde_tensor* tensor) {
  with_struct_void(named, [&](Session&, const sonde_named_op& name) {
    with_struct_void(
        tensor, [&](Session& s, const sonde_tensor& all) { s.named().parameter(named_op_of(name), tensor_of(all)); });
  });
}
void named_step_end() {
  guarded_void([](Session& s) { s.named().end_step(); });
}
void flag_scope(const char* scope, const char* type, int enabled) {
  guarded_void([&](Session& s) { s.flag_scope(scope, type != nullptr ? type : "", enabled != 0); });
}

void set_pool(const sonde_pool* pool) {
  if (pool == nullptr || !is_complete(*pool)) return set_host_pool({});
  const sonde_pool all = completed(*pool);
  set_host_pool({.threads = all.threads, .run = all.run});
}

void set_devices_of_host(const sonde_devices* devices) {
  set_devices(devices != nullptr && is_complete(*devices) ? completed(*devices) : sonde_devices{});
}

void device_read_done(std::uint64_t ticket, const sonde_device_result* result) {
  const std::shared_ptr<LateReading> reading = take_expected(ticket);
  if (reading == nullptr) return;
  deliver(*reading, is_complete(*result) ? completed(*result) : sonde_device_result{});
  guarded_void([](Session& s) { s.ops().device_read_done(); });
}

int asks_for_writers() {
  return guarded(0, [](Session& s) { return s.plan().sonde.replicas == Replicas::first ? 1 : 0; });
}

int shares_results(sonde_graph graph) {
  return guarded(
      0, [&](Session& s) { return s.plan().sonde.replicas == Replicas::first && s.is_common_step(graph) ? 1 : 0; });
}

// Valid until this thread asks again.
const char* mismatch(std::uint32_t version, std::uint32_t table_size) {
  thread_local std::string line;
  line = table_mismatch(version, table_size);
  return line.empty() ? nullptr : line.c_str();
}

constexpr struct sonde_api kApi = {
    .size = sizeof(struct sonde_api),
    .version = SONDE_API_VERSION,
    .engine = SONDE_VERSION,
    .mismatch = mismatch,
    .start = start,
    .set_run_info = set_run_info,
    .stop = stop,
    .active = active,
    .records_exceptions = records_exceptions,
    .forked_child = forked_child,
    .take_failure = take_failure,
    .root_forward = root_forward,
    .quiet_forward = quiet_forward,
    .optimizer_end = optimizer_end,
    .scaler_update = scaler_update,
    .manual_step = manual_step,
    .autograd_started = autograd_started,
    .modules_exist = modules_exist,
    .capture = capture,
    .set_recording = set_recording,
    .set_step = set_step,
    .site = site,
    .source_text = source_text,
    .name_tensor = name_tensor,
    .flag_type = flag_type,
    .storage_changed = storage_changed,
    .storages_freed = storages_freed,
    .op_begin = op_begin,
    .op_attributes = op_attributes,
    .op_input_before = op_input_before,
    .op_mutated = op_mutated,
    .op_check_output = op_check_output,
    .op_failed = op_failed,
    .op_input = op_input,
    .op_output = op_output,
    .op_watch_id = op_watch_id,
    .op_watched = op_watched,
    .op_end = op_end,
    .op_defer = op_defer,
    .op_complete = op_complete,
    .host_settings = host_settings,
    .wants_step = wants_step,
    .wants_named = wants_named,
    .named_op_begin = named_op_begin,
    .named_parameter = named_parameter,
    .named_step_end = named_step_end,
    .flag_scope = flag_scope,
    .set_pool = set_pool,
    .write_ring = write_ring,
    .has_ring = has_ring,
    .records_graph = records_graph,
    .site_wants = site_wants,
    .op_keep = op_keep,
    .op_input_of = op_input_of,
    .ops_forgotten = ops_forgotten,
    .set_devices = set_devices_of_host,
    .device_read_done = device_read_done,
    .device_record_bytes = device_record_bytes,
    .device_statistics = device_statistics,
    .device_fold = device_fold,
    .op_result_at = op_result_at,
    .op_replaced = op_replaced,
    .op_wrote_part = op_wrote_part,
    .storage_allocated = storage_allocated,
    .op_call_number = op_call_number,
    .step_requests = step_requests,
    .step_over = step_over,
    .keeps_summary = keeps_summary,
    .summary_series = summary_series,
    .summary_tensor = summary_tensor,
    .summary_step = summary_step,
    .asks_for_writers = asks_for_writers,
    .summary_again = summary_again,
    .shares_results = shares_results,
};

}  // namespace

const struct sonde_api* api_table() { return &kApi; }

}  // namespace sonde
