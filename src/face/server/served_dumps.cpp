#include "face/server/served_dumps.h"

#include <fmt/format.h>

#include <algorithm>

#include "face/server/ask.h"
#include "face/server/assets.h"
#include "face/server/http.h"
#include "face/server/limits.h"
#include "ground/base/clock.h"
#include "ground/base/text.h"
#include "ground/files/mapped_file.h"
#include "read/measure/measure.h"

namespace sonde::server {
namespace {

struct Route {
  std::string_view path;
  Result<Response> (*answer)(Ask&);
};
constexpr Route kRoutes[] = {
    {"overview", overview},
    {"health", health},
    {"scopes", scopes},
    {"ops", ops},
    {"tensors", tensors},
    {"op", op},
    {"graph", graph},
    {"path", path},
    {"source", source},
    {"search", search},
    {"trend", trend},
    {"curves", curves},
    {"gradients", gradients},
    {"tensor/statistics", tensor_statistics},
    {"tensor/histogram", tensor_histogram},
    {"tensor/heat", tensor_heat},
    {"tensor/values", tensor_values},
    {"tensor/next", tensor_next},
    {"tensor/file", tensor_file},
};

// Changes whenever the answer may: with the dump, the verdicts of jobs, the
// question, the form that is asked for, and the server.
std::string tag_of(const Request& request, const Snapshot& snapshot) {
  static const std::uint64_t start = now_us();  // generations of another server are other ones
  std::string text = fmt::format("{}\n{}\n{}\n{}\n{}", start, request.path, request.header("accept"),
                                 request.header("accept-encoding"), request.header("range"));
  for (const auto& [name, value] : request.query) text += fmt::format("\n{}\t{}", name, value);
  return fmt::format("\"{}.{}.{:016x}\"", snapshot.generation(), snapshot.judged(), std::hash<std::string>()(text));
}

// The answer is the one that the asker has: If-None-Match lists its tag.
bool is_known(const Request& request, std::string_view tag) {
  return request.header("if-none-match").find(tag) != std::string_view::npos;
}

}  // namespace

ServedDumps::ServedDumps(const std::vector<std::filesystem::path>& dumps, Events& events) : events_(events) {
  for (const std::filesystem::path& dump : dumps) {
    const auto number = static_cast<unsigned>(dumps_.size());
    dumps_.push_back(std::make_unique<ServedDump>(number, dump, events_));
  }
}

void ServedDumps::follow() {
  MappedFile::read_up_to_bytes(kLimits.read_bytes);
  for (const std::unique_ptr<ServedDump>& dump : dumps_) dump->start();
}

Status ServedDumps::read_once() {
  MappedFile::read_up_to_bytes(kLimits.read_bytes);
  for (const std::unique_ptr<ServedDump>& dump : dumps_) {
    if (Status read = dump->read_once(); !read) return read;
  }
  return {};
}

Jobs::Hooks ServedDumps::hooks() {
  Jobs::Hooks hooks;
  hooks.measure = [this](std::size_t dump, const std::atomic<bool>& is_cancelled) {
    return measure(dump, is_cancelled);
  };
  hooks.generation = [this](std::size_t dump) {
    const std::shared_ptr<Snapshot> shown = dumps_.at(dump)->snapshot();
    return shown ? shown->generation() : 0;
  };
  hooks.done = [this](const KeptJob& job) { job_done(job); };
  return hooks;
}

ServerStatus ServedDumps::status() const {
  static const HttpLimits http;
  ServerStatus status;
  status.version = SONDE_VERSION;
  status.has_page = has_page();
  for (const std::unique_ptr<ServedDump>& dump : dumps_) {
    const DumpStatus& of = status.dumps.emplace_back(dump->status());
    status.generation += of.generation;
    status.state = std::max(status.state, of.state);
  }
  status.limits = {.header_bytes = http.header_bytes,
                   .body_bytes = http.body_bytes,
                   .connections = http.connections,
                   .idle_seconds = http.idle_seconds,
                   .request_seconds = http.request_seconds,
                   .jobs_waiting = kJobsWaiting,
                   .rows = kLimits.rows,
                   .exported_rows = kLimits.exported_rows,
                   .histogram_bins = kLimits.histogram_bins,
                   .values_bytes = kLimits.values_bytes,
                   .picture_cells = kLimits.picture_cells};
  return status;
}

// Memory, in practice; and what a library throws at a damaged dump.
Response ServedDumps::answer(const Request& request, std::string_view path) {
  try {
    return answer_checked(request, path);
  } catch (const std::exception& error) {
    return problem(500, std::string("cannot answer: ") + error.what());
  }
}

Response ServedDumps::answer_checked(const Request& request, std::string_view path) {
  const auto route = std::ranges::find(kRoutes, path, &Route::path);
  if (route == std::end(kRoutes)) {
    return problem(404, fmt::format("there is no '/api/v1/{}'; see api/v1/openapi.json", path));
  }
  Parameters parameters(request);
  const std::uint64_t number = parameters.number("dump").value_or(0);
  if (number >= dumps_.size()) {
    return problem(404, fmt::format("there is no dump {}; {} shown", number, count_text(dumps_.size(), "dump")));
  }
  ServedDump& dump = *dumps_[number];
  std::shared_ptr<Snapshot> snapshot = dump.snapshot();
  if (!snapshot) {
    const std::string error = dump.error();
    return error.empty() ? problem(503, "the dump is being read; `status` says how far") : problem(500, error);
  }
  auto held = snapshot->hold();
  while (std::shared_ptr<Snapshot> last = dump.snapshot()) {
    if (last == snapshot) break;
    held.unlock();  // it grew before it was held
    snapshot = std::move(last);
    held = snapshot->hold();
  }
  const std::string tag = tag_of(request, *snapshot);  // before the answer, which is then at least as new
  Response response;
  if (is_known(request, tag)) {
    response.status = 304;
  } else {
    Ask ask{request, parameters, dump, snapshot};  // `held` needs it longer
    Result<Response> answered = route->answer(ask);
    response = answered ? std::move(*answered) : problem(answered.error());
  }
  if (response.status < 400) response.headers.emplace_back("ETag", tag);
  return response;
}

Result<Measured> ServedDumps::measure(std::size_t number, const std::atomic<bool>& is_cancelled) {
  ServedDump& dump = *dumps_.at(number);
  const std::shared_ptr<Snapshot> snapshot = dump.snapshot();
  if (!snapshot) return Error{ErrorCode::busy, "the dump is not read yet"};
  const Result<std::shared_ptr<const Facts>> facts = snapshot->facts();
  if (!facts) return facts.error();
  std::unordered_map<std::uint64_t, KnownStatistics> measured;
  Measured answer;
  std::uint64_t next_op = 0;
  for (std::size_t id = 0; id < (*facts)->steps.size() && !is_cancelled; ++id) {
    const StepPlaceFact& place = (*facts)->steps[id];
    Result<Catalog> catalog = snapshot->load_step(place.rank, place.step);
    if (!catalog) return catalog.error();
    CatalogRank& rank = catalog->ranks[place.rank];
    std::vector<MeasureTask> tasks;
    std::vector<std::uint64_t> keys;
    for (CatalogOp& op : rank.steps[place.step].ops) {
      for (std::size_t i = 0; i < op.tensors.size(); ++i) {
        if (op.tensors[i].statistics || op.tensors[i].file.empty()) continue;
        tasks.push_back({&rank, &op.tensors[i]});
        keys.push_back(tensor_key(next_op, i));
      }
      ++next_op;
    }
    for (std::string& message : measure_all(tasks)) answer.problems.push_back({"", std::move(message)});
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      if (tasks[i].tensor->statistics) measured.emplace(keys[i], *tasks[i].tensor->statistics);
    }
    events_.add("progress",
                {{"dump", number}, {"work", "measuring step"}, {"done", id + 1}, {"all", (*facts)->steps.size()}});
  }
  answer.measured = measured.size();
  dump.add_measured(*snapshot, std::move(measured));
  return answer;
}

void ServedDumps::job_done(const KeptJob& job) {
  if (job.job.kind != JobKind::first_bad || !job.result || job.job.exit_status.value_or(2) == 2) return;
  const Json answer = json_of_text(*job.result);
  if (answer.is_object() && !answer.contains("error")) dumps_.at(job.dump)->judge(answer, job.generation);
}

}  // namespace sonde::server
