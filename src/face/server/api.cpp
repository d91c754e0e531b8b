#include "face/server/api.h"

#include <fmt/format.h>

#include <algorithm>

#include "face/report/watch.h"
#include "face/server/answer_table.h"
#include "face/server/ask.h"
#include "face/server/assets.h"
#include "face/server/gzip.h"
#include "face/server/limits.h"
#include "ground/base/parse_number.h"
#include "ground/base/text.h"
#include "ground/contract/json.h"

namespace sonde::server {
namespace {

constexpr std::string_view kApi = "/api/v1/";
constexpr std::string_view kFileOfJob = "/file";
constexpr std::size_t kGzipFrom = 4096;

template <HasMembers Answer>
Response response_with(const Answer& answer) {
  return json_response(text_of_json(json_of(answer)));
}

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

Response with_method(const Request& request, std::string_view allowed) {
  Response refused = problem(405, fmt::format("{} is not possible here, only {}", request.method, allowed));
  refused.headers.emplace_back("Allow", std::string(allowed));
  return refused;
}

}  // namespace

Api::Api(const std::vector<std::filesystem::path>& dumps, ApiOptions options)
    : guard_(std::move(options.token), std::move(options.allowed_hosts)),
      dumps_(dumps, events_),
      jobs_(dumps, events_, dumps_.hooks()) {}

void Api::start() { dumps_.follow(); }

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
    return response_with(dumps_.status());
  }
  if (path == "openapi.json") return json_response(std::string(openapi_text()));
  if (path == "conditions") {
    if (Status good = parameters.finish(); !good) return problem(good.error());
    return response_with(Conditions{conditions_answer().conditions.value()});
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
  return dumps_.answer(request, path);
}

Response Api::answer_job(const Request& request, std::string_view path) {
  Parameters parameters(request);
  if (Status good = parameters.finish(); !good) return problem(good.error());
  if (path == "jobs") {
    if (request.method == "GET") return response_with(jobs_.list());
    if (request.method != "POST") return with_method(request, "GET, POST");
    if (!request.header("content-type").starts_with("application/json")) {
      return problem(400, "a job is JSON: send `Content-Type: application/json`");
    }
    const Result<JobRequest> asked = job_request(request.body);
    if (!asked) return problem(asked.error());
    const Result<Job> job = jobs_.start(*asked);
    if (!job) return job.error().code == ErrorCode::busy ? problem(429, job.error().message) : problem(job.error());
    Response started = response_with(*job);
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
    const Result<JobResult> job = jobs_.one(number);
    return job ? json_response(job->text()) : problem(job.error());
  }
  if (request.method != "DELETE") return with_method(request, "GET, DELETE");
  const Result<Job> job = jobs_.cancel(number);
  return job ? response_with(*job) : problem(job.error());
}

// To be saved: it is not shown in the place of the page.
Result<Response> Api::job_file(std::uint64_t number) const {
  const auto file = jobs_.file(number);
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
  const Lock lock(pairs_mutex_);
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
  const auto job = jobs_.comparison(wanted);
  if (!job) return job.error();
  const auto pairs = pairs_of(job->first, *job->second);
  if (!pairs) return pairs.error();
  const Result<Json> page = (*pairs)->page(query);
  if (!page) return page.error();
  Json json = {{"job", job->first}};
  json.update(*page);
  return json_response(text_of_json(json));
}

}  // namespace sonde::server
