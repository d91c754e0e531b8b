#include "face/server/api.h"

#include <fmt/format.h>

#include <algorithm>

#include "face/report/watch.h"
#include "face/server/answer_table.h"
#include "face/server/ask.h"
#include "face/server/assets.h"
#include "face/server/gzip.h"
#include "face/server/limits.h"
#include "ground/base/clock.h"
#include "ground/base/parse_number.h"
#include "ground/base/text.h"
#include "ground/files/mapped_file.h"
#include "read/measure/measure.h"

namespace sonde::server {
namespace {

constexpr std::string_view kApi = "/api/v1/";
constexpr std::string_view kFileOfJob = "/file";
constexpr std::size_t kGzipFrom = 4096;

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

Response of_result(Result<Response> result) { return result ? std::move(*result) : problem(result.error()); }

// No browser keeps an answer: it is this user's alone, and the dump may grow.
Response finished(const Request& request, Response response) {
  response.headers.emplace_back("Cache-Control", "no-store");
  const bool is_text = response.type.find("json") != std::string::npos || response.type == kCsvType;
  if (is_text && response.body.size() >= kGzipFrom && response.body.size() < (1U << 30U) &&
      request.header("accept-encoding").find("gzip") != std::string_view::npos) {
    if (std::string packed = gzipped(response.body, GzipLevel::fast); !packed.empty()) {
      response.body = std::move(packed);
      response.headers.emplace_back("Content-Encoding", "gzip");
    }
  }
  return response;
}

// Changes whenever the answer may: with the dump, the verdicts of jobs, the question, the form that is asked for, and the server.
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

Response with_method(const Request& request, std::string_view allowed) {
  Response refused = problem(405, fmt::format("{} is not possible here, only {}", request.method, allowed));
  refused.headers.emplace_back("Allow", std::string(allowed));
  return refused;
}

}  // namespace

Api::Api(const std::vector<std::filesystem::path>& dumps, ApiOptions options)
    : guard_(std::move(options.token), std::move(options.allowed_hosts)) {
  for (const std::filesystem::path& dump : dumps) {
    const auto number = static_cast<unsigned>(dumps_.size());
    dumps_.push_back(std::make_unique<ServedDump>(number, number == 0 ? "target" : "golden", dump, events_));
  }
  Jobs::Hooks hooks;
  hooks.measure = [this](std::size_t dump, const std::atomic<bool>& is_cancelled) {
    return measure(dump, is_cancelled);
  };
  hooks.generation = [this](std::size_t dump) {
    const std::shared_ptr<Snapshot> shown = dumps_.at(dump)->snapshot();
    return shown ? shown->generation() : 0;
  };
  hooks.done = [this](const Job& job) { job_done(job); };
  jobs_ = std::make_unique<Jobs>(dumps, events_, std::move(hooks));
}

void Api::start() {
  MappedFile::read_up_to_bytes(kLimits.read_bytes);
  for (const std::unique_ptr<ServedDump>& dump : dumps_) dump->start();
}

Json Api::status() const {
  static const HttpLimits http;
  Json dumps = Json::array();
  std::string worst = "ready";
  std::uint64_t generation = 0;
  for (const std::unique_ptr<ServedDump>& dump : dumps_) {
    dumps.push_back(dump->status());
    generation += dumps.back()["generation"].get<std::uint64_t>();
    const std::string state = dumps.back()["state"];
    for (const std::string_view word : {"live", "indexing", "failed"}) {  // from the best to the worst
      if (state == word && worst != "failed" && !(worst == "indexing" && word == "live")) worst = word;
    }
  }
  return {{"version", SONDE_VERSION},
          {"state", worst},
          {"generation", generation},
          {"has_page", has_page()},
          {"dumps", dumps},
          {"limits",
           {{"header_bytes", http.header_bytes},
            {"body_bytes", http.body_bytes},
            {"connections", http.connections},
            {"idle_seconds", http.idle_seconds},
            {"request_seconds", http.request_seconds},
            {"jobs_waiting", kJobsWaiting},
            {"rows", kLimits.rows},
            {"exported_rows", kLimits.exported_rows},
            {"histogram_bins", kLimits.histogram_bins},
            {"values_bytes", kLimits.values_bytes},
            {"picture_cells", kLimits.picture_cells}}}};
}

// Memory, in practice; and what a library throws at a damaged dump.
Response Api::answer(const Request& request) {
  try {
    return answer_checked(request);
  } catch (const std::exception& error) {
    return problem(500, std::string("cannot answer: ") + error.what());
  }
}

Response Api::answer_checked(const Request& request) {
  const bool is_api = request.path.starts_with(kApi);
  if (std::optional<Response> refused = guard_.refuse(request, is_api)) return std::move(*refused);
  if (is_api) {
    Response response = finished(request, answer_api(request, std::string_view(request.path).substr(kApi.size())));
    response.is_for_owner = true;
    return response;
  }
  if (request.method != "GET") return with_method(request, "GET");
  return asset(request);
}

Response Api::answer_api(const Request& request, std::string_view path) {
  if (path == "jobs" || path.starts_with("jobs/")) return answer_job(request, path);
  if (request.method != "GET") return with_method(request, "GET");
  Parameters parameters(request);
  if (path == "status") {
    if (Status good = parameters.finish(); !good) return problem(good.error());
    return json_response(status().dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  if (path == "openapi.json") return json_response(std::string(openapi_text()));
  if (path == "conditions") {
    if (Status good = parameters.finish(); !good) return problem(good.error());
    return json_response(json_of(conditions_answer()).dump());
  }
  if (path == "pairs") return of_result(pairs(request));
  if (path == "events") {
    Response stream;
    stream.after = parameters.number("after").value_or(events_.last());
    if (Status good = parameters.finish(); !good) return problem(good.error());
    stream.type = "text/event-stream";
    stream.is_stream = true;
    stream.body = ":\n\n";  // the head is sent at once
    return stream;
  }
  return answer_dump(request, path);
}

Response Api::answer_dump(const Request& request, std::string_view path) {
  const auto route = std::ranges::find(kRoutes, path, &Route::path);
  if (route == std::end(kRoutes)) {
    return problem(404, fmt::format("there is no '{}{}'; see api/v1/openapi.json", kApi, path));
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
    response = of_result(route->answer(ask));
  }
  if (response.status < 400) response.headers.emplace_back("ETag", tag);
  return response;
}

Response Api::answer_job(const Request& request, std::string_view path) {
  const auto text = [](const Json& json) {
    return json_response(json.dump(-1, ' ', false, Json::error_handler_t::replace));
  };
  Parameters parameters(request);
  if (Status good = parameters.finish(); !good) return problem(good.error());
  if (path == "jobs") {
    if (request.method == "GET") return text(jobs_->list());
    if (request.method != "POST") return with_method(request, "GET, POST");
    if (!request.header("content-type").starts_with("application/json")) {
      return problem(400, "a job is JSON: send `Content-Type: application/json`");
    }
    Result<Json> job = jobs_->start(request.body);
    if (!job) return job.error().code == ErrorCode::busy ? problem(429, job.error().message) : problem(job.error());
    Response started = text(*job);
    started.status = 202;
    return started;
  }
  std::uint64_t number = 0;
  std::string_view digits = path.substr(std::string_view("jobs/").size());
  const bool of_file = digits.ends_with(kFileOfJob);
  if (of_file) digits.remove_suffix(kFileOfJob.size());
  if (!parse_number(digits, number)) return problem(404, fmt::format("there is no job '{}'", digits));
  if (of_file) return request.method == "GET" ? of_result(job_file(number)) : with_method(request, "GET");
  if (request.method == "GET") {
    Result<std::string> job = jobs_->one(number);
    return job ? json_response(std::move(*job)) : problem(job.error());
  }
  if (request.method != "DELETE") return with_method(request, "GET, DELETE");
  Result<Json> job = jobs_->cancel(number);
  return job ? text(*job) : problem(job.error());
}

// To be saved: it is not shown in the place of the page.
Result<Response> Api::job_file(std::uint64_t number) const {
  const auto file = jobs_->file(number);
  if (!file) return file.error();
  Response response;
  response.type = "application/octet-stream";
  response.headers.emplace_back("Content-Disposition", fmt::format("attachment; filename=\"{}\"", file->first));
  response.owner = file->second;
  response.tail = *file->second;
  return response;
}

// A document is read once, though each page of its rows is a request.
Result<std::shared_ptr<const ComparedPairs>> Api::pairs_of(std::uint64_t job, const std::string& document) {
  const std::lock_guard lock(pairs_mutex_);
  if (pairs_ && pairs_job_ == job) return pairs_;
  Result<ComparedPairs> read = ComparedPairs::read(document);
  if (!read) return read.error();
  pairs_ = std::make_shared<const ComparedPairs>(std::move(*read));
  pairs_job_ = job;
  return pairs_;
}

Result<Response> Api::pairs(const Request& request) {
  Parameters parameters(request);
  PairsQuery query;
  const std::uint64_t wanted = parameters.number("job").value_or(0);
  query.verdict = parameters.text("verdict").value_or("");
  query.filter = parameters.text("filter").value_or("");
  query.sort = parameters.text("sort").value_or("");
  query.offset = parameters.number("offset", 0, ~0ULL);
  query.limit = parameters.number("limit", 200, kLimits.rows);
  if (Status good = parameters.finish(); !good) return good.error();
  const auto job = jobs_->comparison(wanted);
  if (!job) return job.error();
  const auto pairs = pairs_of(job->first, *job->second);
  if (!pairs) return pairs.error();
  const Result<Json> page = (*pairs)->page(query);
  if (!page) return page.error();
  Json json = {{"job", job->first}};
  json.update(*page);
  return json_response(text_of_json(json));
}

Result<Json> Api::measure(std::size_t number, const std::atomic<bool>& is_cancelled) {
  ServedDump& dump = *dumps_.at(number);
  const std::shared_ptr<Snapshot> snapshot = dump.snapshot();
  if (!snapshot) return Error{ErrorCode::busy, "the dump is not read yet"};
  const Result<std::shared_ptr<const Facts>> facts = snapshot->facts();
  if (!facts) return facts.error();
  std::unordered_map<std::uint64_t, KnownStatistics> measured;
  std::vector<std::string> problems;
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
    std::ranges::move(measure_all(tasks), std::back_inserter(problems));
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      if (tasks[i].tensor->statistics) measured.emplace(keys[i], *tasks[i].tensor->statistics);
    }
    events_.add("progress",
                {{"dump", number}, {"work", "measuring step"}, {"done", id + 1}, {"all", (*facts)->steps.size()}});
  }
  Json list = Json::array();
  for (const std::string& message : problems) list.push_back({{"path", ""}, {"message", message}});
  const std::size_t count = measured.size();
  dump.add_measured(*snapshot, std::move(measured));
  return Json{{"measured", count}, {"problems", list}, {"warnings", Json::array()}};
}

void Api::job_done(const Job& job) {
  if (job.kind != "first-bad" || !job.result || job.exit_status.value_or(2) == 2) return;
  const Json answer = Json::parse(*job.result, nullptr, false);
  if (answer.is_object() && !answer.contains("error")) dumps_.at(job.dump)->judge(answer, job.generation);
}

}  // namespace sonde::server
