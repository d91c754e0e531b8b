#include "face/server/html_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "contract/names.h"
#include "face/server/html_file.h"
#include "face/server/jobs.h"
#include "face/server/limits.h"
#include "face/server/redact.h"
#include "face/server/report_focus.h"
#include "face/server/served_dumps.h"
#include "ground/base/text.h"
#include "ground/contract/read_json.h"

namespace sonde::server {
namespace {

constexpr std::string_view kArrow = "application/vnd.apache.arrow.stream";
constexpr std::string_view kJson = "application/json";

Fields with(Fields fields, const Fields& more) {
  fields.insert(fields.end(), more.begin(), more.end());
  return fields;
}

constexpr std::uint64_t kHealthRows = 100;       // of a page of the health map, as web/src/screens/maps.tsx asks
constexpr std::uint64_t kMostHealthRows = 2000;  // of a level

// The answer of a job; an empty one if there is none.
template <typename Answer>
Answer answer_in(const Json& job) {
  const Json result = job.is_object() ? job.value("result", Json()) : Json();
  Result<Read<Answer>> read = read_json<Answer>(result.is_object() ? result : Json::object());
  return read ? std::move(read->answer) : Answer();
}

class Reporter {
 public:
  Reporter(const HtmlReportOptions& options, HtmlFile file)
      : options_(options),
        file_(std::move(file)),
        dumps_(options.dumps, events_),
        jobs_(options.dumps, events_, dumps_.hooks()) {}

  Result<HtmlPage> make();

 private:
  Response ask(std::string_view path, const Fields& query, std::string_view accept = kJson);
  Result<Json> ask_json(std::string_view path, const Fields& query);
  template <typename Answer>
  Result<Answer> asked(std::string_view path, const Fields& query);
  Json run_job(const std::string& kind);

  // Puts an answer into the file; false if there is no room, or there is no
  // such answer.
  bool put(std::string_view what, std::string_view path, const Fields& query, std::string_view accept = kJson);
  bool put_json(std::string_view what, std::string_view path, const Fields& query, Json answer);
  bool put_body(std::string_view what, const std::string& key, std::string_view type, std::string_view body);
  void leave_out(std::string_view what);
  void put_other_ops();
  Fields shown(Fields query);

  void put_first();
  void put_suspect(const FocusOp& suspect);
  void put_values(const FocusOp& suspect, const Op& op);
  void put_slice(const Fields& of, const std::vector<std::uint64_t>& shape);
  void put_health(const Fields& query, const std::string& under, int depth);
  Result<Json> rows_of(std::string_view table, const Place& place, const std::string& filter = "");
  Status put_tables(const Place& place);
  std::vector<Place> golden_places() const;
  void put_source();
  void note_content(const Json& answer);
  HtmlReport about() const;
  Json for_page(const HtmlReport& about) const;

  const HtmlReportOptions& options_;
  HtmlFile file_;
  Events events_;
  ServedDumps dumps_;
  Jobs jobs_;
  Redactor redactor_;
  std::vector<Overview> overviews_;
  std::vector<Place> places_;
  std::vector<FocusOp> suspects_;
  std::vector<FocusOp> others_;  // ops of the chosen steps
  std::map<std::string, std::uint64_t> left_out_;
  std::vector<std::string> left_out_order_;
  Json slices_ = Json::object();
  std::set<std::string> hosts_, commands_;
  std::uint64_t source_lines_ = 0, op_pages_ = 0, tensors_with_values_ = 0;
};

Response Reporter::ask(std::string_view path, const Fields& query, std::string_view accept) {
  Request request;
  request.path = path;
  for (const auto& [name, value] : query) {
    if (!value.empty()) request.query.emplace_back(name, value);
  }
  request.headers = {{"accept", std::string(accept)}};
  Response answer = dumps_.answer(request, path);
  answer.body.append(answer.tail.data(), answer.tail.size());
  return answer;
}

Result<Json> Reporter::ask_json(std::string_view path, const Fields& query) {
  const Response answer = ask(path, query);
  Json json = Json::parse(answer.body, nullptr, false);
  if (answer.status == 200) return json;
  return Error{ErrorCode::not_found, json.is_object() ? json.value("detail", "") : answer.body};
}

template <typename Answer>
Result<Answer> Reporter::asked(std::string_view path, const Fields& query) {
  const Result<Json> json = ask_json(path, query);
  if (!json) return json.error();
  Result<Read<Answer>> read = read_json<Answer>(*json);
  if (!read) return read.error();
  return std::move(read->answer);
}

// The job as the page reads it. Its times are left out: the same dump gives the
// same report.
Json Reporter::run_job(const std::string& kind) {
  const Result<Json> started = jobs_.start(Json{{"kind", kind}}.dump());
  if (!started) return {};
  const Result<std::string> ended = jobs_.wait_for(started->value("job", std::uint64_t{0}));
  if (!ended) return {};
  Json job = Json::parse(*ended, nullptr, false);
  for (const char* time : {"created_us", names::started_us, names::ended_us}) job[time] = 0;
  return job;
}

Fields Reporter::shown(Fields query) {
  if (!options_.is_redacted) return query;
  for (auto& [name, value] : query) {
    if (name == "name" || name == "under") value = redactor_.name(value);
    if (name == "rank") value = redactor_.rank(value);
  }
  return query;
}

bool Reporter::put_body(std::string_view what, const std::string& key, std::string_view type, std::string_view body) {
  if (file_.has(key)) return true;
  if (file_.add(key, type, body)) return true;
  leave_out(what);
  return false;
}

void Reporter::leave_out(std::string_view what) {
  if (left_out_[std::string(what)]++ == 0) left_out_order_.emplace_back(what);
}

bool Reporter::put_json(std::string_view what, std::string_view path, const Fields& query, Json answer) {
  if (answer.is_object() && answer.contains("generation")) answer["generation"] = 1;
  if (options_.is_redacted) answer = redactor_.redacted(answer);
  const bool is_put = put_body(what, answer_key(path, shown(query)), kJson, text_of_json(answer));
  if (is_put) note_content(answer);
  return is_put;
}

bool Reporter::put(std::string_view what, std::string_view path, const Fields& query, std::string_view accept) {
  const std::string key = answer_key(path, shown(query));
  if (file_.has(key)) return true;
  Response answer = ask(path, query, accept);
  if (answer.status != 200) return false;
  if (answer.type.starts_with(kJson)) return put_json(what, path, query, Json::parse(answer.body, nullptr, false));
  return put_body(what, key, answer.type, answer.body);
}

// Notes what a reader may not expect in the file.
void Reporter::note_content(const Json& answer) {
  if (!answer.is_object()) return;
  for (const Json& rank : answer.value("ranks", Json::array())) {
    for (const Json& run : rank.value("runs", Json::array())) {
      if (const std::string host = run.value("host", ""); !host.empty()) hosts_.insert(host);
      if (const std::string command = run.value("command", ""); !command.empty()) commands_.insert(command);
    }
  }
  if (answer.contains("code") && answer["code"].is_object())
    source_lines_ += answer["code"].value("lines", Json::array()).size();
  for (const Json& line : answer.value("lines", Json::array())) source_lines_ += line.value("text", "").empty() ? 0 : 1;
}

// Puts what the first screen shows.
void Reporter::put_first() {
  Json status = dumps_.status();
  for (Json& dump : status["dumps"]) {
    dump["index"] = "none";
    dump["generation"] = 1;
    dump["looks"] = 0;
    dump["looking_seconds"] = 0.0;
    dump["state"] = "ready";
    dump["progress"] = nullptr;
  }
  status["state"] = "ready";
  put_json("overview", "status", {}, status);
  for (std::size_t i = 0; i < overviews_.size(); ++i) {
    put("overview", "overview", {{"dump", std::to_string(i)}});
  }
}

void Reporter::put_suspect(const FocusOp& suspect) {
  const Fields named = with(suspect.place.query(), {{"name", suspect.op_name}});
  if (put("operators", "op", named)) ++op_pages_;
  for (const char* direction : {"effect", "cause"}) {
    // From the whole operator, and from the tensor that a link names.
    put("paths", "path", with(named, {{"direction", direction}}));
    put("paths", "path", with(named, {{"side", "output"}, {"slot", "0"}, {"direction", direction}}));
  }
}

void Reporter::put_slice(const Fields& of, const std::vector<std::uint64_t>& shape) {
  std::optional<std::vector<std::int64_t>> at;
  for (const char* kind : {"nan", "inf", "max", "min"}) {
    const Fields query = with(of, {{"of", kind}, {"from", "0"}});
    if (Result<Element> next = asked<Element>("tensor/next", query); next && !at) at = std::move(next->index);
    put("values", "tensor/next", query);
  }
  const std::string slice = slice_of(shape, at);
  if (put("values", "tensor/values", with(of, {{"slice", slice}}), "*/*")) {
    slices_[answer_key("tensor/values", shown(of))] = slice;
    ++tensors_with_values_;
  }
  const std::string side = std::to_string(kWindow);
  put("heat maps", "tensor/heat", with(of, {{"slice", slice}, {"w", side}, {"h", side}}), kArrow);
}

void Reporter::put_values(const FocusOp& suspect, const Op& op) {
  for (const OpTensor& tensor : op.tensors) {
    const ListedTensor& of = tensor.tensor;
    const Fields named = {
        {"name", suspect.op_name}, {"side", std::string(word_of(of.side))}, {"slot", std::to_string(of.slot)}};
    const Fields query = with(suspect.place.query(), named);
    const Fields over_steps = {{"dump", std::to_string(suspect.place.dump)},
                               {"graph", std::to_string(suspect.place.graph)}};
    put("trends", "trend", with(over_steps, named));
    if (options_.values == ReportValues::none || options_.is_redacted || !tensor.has_values) continue;
    for (const char* scale : {"linear", "log", "symlog"}) {
      put("histograms", "tensor/histogram", with(query, {{"scale", scale}, {"bins", "64"}}));
    }
    std::vector<std::uint64_t> shape;
    if (of.shape) shape.assign(of.shape->begin(), of.shape->end());
    put_slice(query, shape);
  }
}

// The levels of the health map: those that the page opens first come first.
void Reporter::put_health(const Fields& query, const std::string& under, int depth) {
  std::vector<std::string> open;
  for (std::uint64_t first = 0, all = 1; first < std::min(all, kMostHealthRows); first += kHealthRows) {
    const std::string rows = std::to_string(kHealthRows);
    const Fields asked =
        with(query, {{"under", under}, {"w", "400"}, {"first_row", std::to_string(first)}, {"rows", rows}});
    const Result<Json> level = ask_json("health", asked);
    if (!level || !put_json("levels of the health map", "health", asked, *level) || depth > 12) return;
    for (const Json& cell : (*level)["rows"]) {
      all = cell.value("row_count", all);
      const std::string scope = cell.value("row", "");
      if (cell.value("has_children", false) && std::ranges::find(open, scope) == open.end()) open.push_back(scope);
    }
  }
  for (const std::string& scope : open) put_health(query, scope, depth + 1);
}

Result<Json> Reporter::rows_of(std::string_view table, const Place& place, const std::string& filter) {
  Json all;
  for (std::uint64_t offset = 0;; offset += kLimits.rows) {
    const Fields query =
        with(place.query(),
             {{"filter", filter}, {"offset", std::to_string(offset)}, {"limit", std::to_string(kLimits.rows)}});
    Result<Json> page = ask_json(table, query);
    if (!page) return page;
    if (all.is_null()) {
      all = *page;
    } else {
      for (Json& row : (*page)["rows"]) all["rows"].push_back(std::move(row));
    }
    if (all["rows"].size() >= all["count"].get<std::uint64_t>() || (*page)["rows"].empty()) return all;
  }
}

Status Reporter::put_tables(const Place& place) {
  for (const std::string_view table : {"ops", "tensors"}) {
    Result<Json> rows = rows_of(table, place);
    if (!rows) return rows.error();
    if (table == "ops" && options_.select.empty()) {
      for (const Json& row : (*rows)["rows"]) others_.push_back({place, row.value(names::op_name, "")});
    }
    rows->erase("offset");
    put_json(fmt::format("tables of {}", table), table, place.query(), std::move(*rows));
  }
  return {};
}

// The places in golden that the page shows beside those of the target: same
// rank, graph and step.
std::vector<Place> Reporter::golden_places() const {
  std::vector<Place> places;
  if (overviews_.size() < 2) return places;
  for (const OverviewStep& step : overviews_[1].steps) {
    const Place place = {1, step.rank, step.graph, step.step};
    const bool is_shown = std::ranges::any_of(places_, [&](const Place& of) {
      return of.rank == place.rank && of.graph == place.graph && of.step == place.step;
    });
    if (is_shown) places.push_back(place);
  }
  return places;
}

// After so many pages in a row without room the next ones are not made: each
// takes milliseconds, and a step has thousands.
constexpr int kMostWithoutRoom = 50;

void Reporter::put_other_ops() {
  int without_room = 0;
  for (const FocusOp& other : others_) {
    const Fields named = with(other.place.query(), {{"name", other.op_name}});
    if (file_.has(answer_key("op", shown(named)))) continue;
    if (without_room == kMostWithoutRoom) {
      leave_out("operators");
      continue;
    }
    const bool is_put = put("operators", "op", named);
    without_room = is_put ? 0 : without_room + 1;
    if (is_put) ++op_pages_;
    if (options_.values != ReportValues::selected) continue;
    if (const Result<Op> op = asked<Op>("op", named)) put_values(other, *op);
  }
}

void Reporter::put_source() {
  if (options_.is_redacted) return;
  for (const OverviewRank& rank : overviews_[0].ranks) {
    const Fields where = {{"rank", rank.rank}};
    const Result<SourceFiles> found = asked<SourceFiles>("source", where);
    if (!found || !put("source files", "source", where)) continue;
    for (const ListedFile& file : found->files) {
      put("source files", "source", with(where, {{"file", file.source_file}}));
    }
  }
}

HtmlReport Reporter::about() const {
  HtmlReport about;
  std::set<std::uint64_t> steps;
  for (const Place& place : places_) steps.insert(place.step);
  about.steps.assign(steps.begin(), steps.end());
  about.is_redacted = options_.is_redacted;
  about.contains.hosts.assign(hosts_.begin(), hosts_.end());
  about.contains.commands.assign(commands_.begin(), commands_.end());
  about.contains.paths = !options_.is_redacted;
  about.contains.source_lines = source_lines_;
  about.contains.tensors_with_values = tensors_with_values_;
  about.contains.operators = op_pages_;
  for (const std::string& what : left_out_order_) about.left_out.push_back({what, left_out_.at(what)});
  return about;
}

// The facts about the file that the page shows.
Json Reporter::for_page(const HtmlReport& about) const {
  std::string command = "sonde serve";
  if (options_.is_redacted) {
    command += " DUMP";
  } else {
    for (const std::filesystem::path& dump : options_.dumps) command += " " + shell_quoted(dump.string());
  }
  Json json = json_of(about);
  for (const char* name : {"file", "bytes"}) json.erase(name);  // not known before it is written
  json["command"] = command;
  json["slices"] = slices_;
  return json;
}

Result<HtmlPage> Reporter::make() {
  if (Status read = dumps_.read_once(); !read) return read.error();
  for (std::size_t i = 0; i < options_.dumps.size(); ++i) {
    Result<Overview> overview = asked<Overview>("overview", {{"dump", std::to_string(i)}});
    if (!overview) return overview.error();
    overviews_.push_back(std::move(*overview));
  }
  const FirstBad first_bad = answer_in<FirstBad>(run_job("first-bad"));
  Json compared;
  if (options_.dumps.size() > 1) compared = run_job("compare");
  const Comparison comparison = answer_in<Comparison>(compared);
  const ReportFocus focus{options_, overviews_, first_bad, comparison};
  Result<std::vector<Place>> places = focus.places();
  if (!places) return places.error();
  places_ = std::move(*places);
  suspects_ = focus.suspects();

  put_first();
  Json jobs = Json::array();
  if (compared.is_object()) {
    put_json("comparison", "jobs/" + std::to_string(compared.value("job", 0)), {}, compared);
    compared["result"] = nullptr;
    jobs.push_back(compared);
  }
  put_json("overview", "jobs", {}, Json{{"jobs", jobs}});
  for (const FocusOp& suspect : suspects_) put_suspect(suspect);
  std::set<std::pair<std::string, std::uint64_t>> graphs;
  for (const Place& place : places_) {
    if (!graphs.emplace(place.rank, place.graph).second) continue;
    const Fields query = {{"rank", place.rank}, {"graph", std::to_string(place.graph)}};
    put("matrices of gradients", "gradients", with(query, {{"w", "400"}, {"h", "60"}}));
    put_health(query, "", 0);
  }
  for (const Place& place : places_) {
    for (const char* part : {"nodes", "edges"}) put("graphs of steps", "graph", with(place.query(), {{"part", part}}));
  }
  for (const Place& place : golden_places()) {
    for (const char* part : {"nodes", "edges"}) put("graphs of golden", "graph", with(place.query(), {{"part", part}}));
  }
  for (const FocusOp& suspect : suspects_) {
    const Result<Op> op = asked<Op>("op", with(suspect.place.query(), {{"name", suspect.op_name}}));
    if (op) put_values(suspect, *op);
  }
  if (!options_.is_redacted && first_bad.first) {
    put_json("next configuration", "jobs/next-config", {}, run_job("next-config"));
  }
  for (const Place& place : places_) {
    if (Status good = put_tables(place); !good) return good.error();
  }
  put_source();
  for (const std::string& pattern : options_.select) {
    bool is_found = false;
    for (const Place& place : places_) {
      const Result<Json> rows = rows_of("ops", place, "\"" + pattern + "\"");
      if (!rows) return rows.error();
      for (const Json& row : (*rows)["rows"]) others_.push_back({place, row.value(names::op_name, "")});
      is_found = is_found || !(*rows)["rows"].empty();
    }
    if (!is_found) {
      return Error{ErrorCode::invalid_argument, fmt::format("--select '{}': no operator of the chosen steps", pattern)};
    }
  }
  put_other_ops();
  HtmlPage report;
  report.about = about();
  const std::string name = options_.is_redacted ? "" : options_.dumps[0].filename().string() + " – ";
  Result<std::string> html = file_.finish(name + "Sonde", for_page(report.about));
  if (!html) return html.error();
  if (html->size() > options_.most_bytes) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("--max-size: the report has {} bytes; choose fewer steps", html->size())};
  }
  report.html = std::move(*html);
  report.about.bytes = report.html.size();
  return report;
}

}  // namespace

Result<HtmlPage> html_report(const HtmlReportOptions& options) {
  Result<HtmlFile> file = HtmlFile::begin(options.most_bytes);
  if (!file) return file.error();
  Reporter reporter(options, std::move(*file));
  return reporter.make();
}

}  // namespace sonde::server
