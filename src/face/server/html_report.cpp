#include "face/server/html_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "contract/served_rows.h"
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

constexpr std::uint64_t kHealthRows = 100;       // of its page, as web/src/screens/health_levels.ts
constexpr std::uint64_t kHealthRanks = 64;       // which it shows beside one, as there
constexpr std::uint64_t kMostHealthRows = 2000;  // of a level

// The answer of a job; an empty one if there is none.
template <typename Answer>
Answer answer_in(const std::optional<JobResult>& job) {
  Result<Read<Answer>> read = read_json<Answer>(job && job->result ? json_of_text(*job->result) : Json());
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
  std::optional<JobResult> run_job(JobKind kind);

  // Puts an answer into the file; false if there is no room, or there is no
  // such answer.
  bool put(std::string_view what, std::string_view path, const Fields& query, std::string_view accept = kJson);
  bool put_json(std::string_view what, std::string_view path, const Fields& query, Json answer);
  template <typename Answer>
  std::optional<Answer> put_read(std::string_view what, std::string_view path, const Fields& query);
  std::optional<Op> put_op(const Fields& named);
  bool put_body(std::string_view what, const std::string& key, std::string_view type, std::string_view body);
  void leave_out(std::string_view what);
  Status put_selected();
  void put_other_ops();
  Fields shown(Fields query);

  void put_first();
  void put_suspect(const FocusOp& suspect);
  void put_values(const FocusOp& suspect, const Op& op);
  void put_slice(const Fields& of, const std::vector<std::uint64_t>& shape);
  void put_health(const Fields& query, const std::string& under, int depth);
  void put_health_of_ranks(const Fields& query, const std::string& rank);
  template <typename Row>
  Result<TableAnswer<Row>> rows_of(std::string_view table, const Fields& query);
  void add_others(const Place& place, const std::vector<ServedOp>& ops);
  Status put_tables(const Place& place);
  std::vector<Place> golden_places() const;
  void put_source();
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
  Json json = json_of_text(answer.body);
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
std::optional<JobResult> Reporter::run_job(JobKind kind) {
  const Result<Job> started = jobs_.start({.kind = kind});
  if (!started) return std::nullopt;
  Result<JobResult> ended = jobs_.wait_for(started->job);
  if (!ended) return std::nullopt;
  ended->job.created_us = ended->job.started_us = ended->job.ended_us = 0;
  return std::move(*ended);
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
  return put_body(what, answer_key(path, shown(query)), kJson, text_of_json(answer));
}

template <typename Answer>
std::optional<Answer> Reporter::put_read(std::string_view what, std::string_view path, const Fields& query) {
  Result<Json> answer = ask_json(path, query);
  if (!answer) return std::nullopt;
  Result<Read<Answer>> read = read_json<Answer>(*answer);
  if (!read || !put_json(what, path, query, std::move(*answer))) return std::nullopt;
  return std::move(read->answer);
}

bool Reporter::put(std::string_view what, std::string_view path, const Fields& query, std::string_view accept) {
  const std::string key = answer_key(path, shown(query));
  if (file_.has(key)) return true;
  Response answer = ask(path, query, accept);
  if (answer.status != 200) return false;
  if (answer.type.starts_with(kJson)) return put_json(what, path, query, json_of_text(answer.body));
  return put_body(what, key, answer.type, answer.body);
}

std::optional<Op> Reporter::put_op(const Fields& named) {
  std::optional<Op> op = put_read<Op>("operators", "op", named);
  if (!op) return op;
  ++op_pages_;
  if (!options_.is_redacted) source_lines_ += op->code.lines.size();
  return op;
}

// Puts what the first screen shows.
void Reporter::put_first() {
  ServerStatus status = dumps_.status();
  for (DumpStatus& dump : status.dumps) {
    dump.index = IndexPlace::none;
    dump.generation = 1;
    dump.looks = 0;
    dump.looking_seconds = 0;
    dump.state = DumpState::ready;
    dump.progress.reset();
  }
  status.state = DumpState::ready;
  put_json("overview", "status", {}, json_of(status));
  for (std::size_t i = 0; i < overviews_.size(); ++i) {
    if (!put("overview", "overview", {{"dump", std::to_string(i)}}) || options_.is_redacted) continue;
    for (const OverviewRank& rank : overviews_[i].ranks) {
      for (const OverviewRun& run : rank.runs) {
        hosts_.insert(run.listed.host);
        commands_.insert(run.listed.command);
      }
    }
  }
  hosts_.erase("");
  commands_.erase("");
}

void Reporter::put_suspect(const FocusOp& suspect) {
  const Fields named = with(suspect.place.query(), {{"name", suspect.op_name}});
  put_op(named);
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
    const auto level = put_read<TableAnswer<ServedHealth>>("levels of the health map", "health", asked);
    if (!level || depth > 12) return;
    for (const ServedHealth& cell : level->rows) {
      all = cell.row_count;
      if (cell.has_children && std::ranges::find(open, cell.row) == open.end()) open.push_back(cell.row);
    }
  }
  for (const std::string& scope : open) put_health(query, scope, depth + 1);
}

// Beside the levels of a rank a row for each of those about it.
void Reporter::put_health_of_ranks(const Fields& query, const std::string& rank) {
  const auto found = std::ranges::find(overviews_[0].ranks, rank, &OverviewRank::rank);
  if (overviews_[0].ranks.size() < 2 || found == overviews_[0].ranks.end()) return;
  const auto first = static_cast<std::uint64_t>(found - overviews_[0].ranks.begin()) / kHealthRanks * kHealthRanks;
  put("rows of ranks", "health",
      with(query, {{"w", "400"},
                   {"by", "rank"},
                   {"first_row", std::to_string(first)},
                   {"rows", std::to_string(kHealthRanks)}}));
}

template <typename Row>
Result<TableAnswer<Row>> Reporter::rows_of(std::string_view table, const Fields& query) {
  std::vector<Row> rows;
  for (;;) {
    const std::string offset = std::to_string(rows.size()), limit = std::to_string(kLimits.rows);
    auto page = asked<TableAnswer<Row>>(table, with(query, {{"offset", offset}, {"limit", limit}}));
    if (!page) return page;
    std::ranges::move(page->rows, std::back_inserter(rows));
    if (rows.size() < page->count && !page->rows.empty()) continue;
    page->rows = std::move(rows);
    page->offset.reset();
    return page;
  }
}

void Reporter::add_others(const Place& place, const std::vector<ServedOp>& ops) {
  for (const ServedOp& op : ops) others_.push_back({place, op.op_name});
}

Status Reporter::put_tables(const Place& place) {
  const auto ops = rows_of<ServedOp>("ops", place.query());
  if (!ops) return ops.error();
  if (options_.select.empty()) add_others(place, ops->rows);
  put_json("tables of ops", "ops", place.query(), json_of(*ops));
  const auto tensors = rows_of<Json>("tensors", place.query());
  if (!tensors) return tensors.error();
  put_json("tables of tensors", "tensors", place.query(), json_of(*tensors));
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

// The operators that the user chose.
Status Reporter::put_selected() {
  for (const std::string& pattern : options_.select) {
    bool is_found = false;
    for (const Place& place : places_) {
      const auto found = rows_of<ServedOp>("ops", with(place.query(), {{"filter", "\"" + pattern + "\""}}));
      if (!found) return found.error();
      add_others(place, found->rows);
      is_found = is_found || !found->rows.empty();
    }
    if (!is_found) {
      return Error{ErrorCode::invalid_argument, fmt::format("--select '{}': no operator of the chosen steps", pattern)};
    }
  }
  return {};
}

void Reporter::put_other_ops() {
  int without_room = 0;
  for (const FocusOp& other : others_) {
    const Fields named = with(other.place.query(), {{"name", other.op_name}});
    if (file_.has(answer_key("op", shown(named)))) continue;
    if (without_room == kMostWithoutRoom) {
      leave_out("operators");
      continue;
    }
    without_room = put_op(named) ? 0 : without_room + 1;
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
      const auto text = put_read<SourceFile>("source files", "source", with(where, {{"file", file.source_file}}));
      if (!text) continue;
      source_lines_ += std::ranges::count_if(text->lines, [](const FileLine& line) { return !line.text.empty(); });
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
    for (const std::filesystem::path& dump : options_.dumps) command += " " + shell_word(dump.string());
  }
  Json json = json_of(about);
  for (const char* name : {"file", "bytes"}) json.erase(name);  // not known before it is written
  json["command"] = command;
  json["slices"] = slices_;
  return json;
}

Result<HtmlPage> Reporter::make() {
  const auto begin = [&](std::string_view work) {
    if (options_.progress) options_.progress(work);
  };
  begin("reading the dump");
  if (Status read = dumps_.read_once(); !read) return read.error();
  for (std::size_t i = 0; i < options_.dumps.size(); ++i) {
    Result<Overview> overview = asked<Overview>("overview", {{"dump", std::to_string(i)}});
    if (!overview) return overview.error();
    overviews_.push_back(std::move(*overview));
  }
  begin("looking for the first bad value");
  const FirstBad first_bad = answer_in<FirstBad>(run_job(JobKind::first_bad));
  std::optional<JobResult> compared;
  if (options_.dumps.size() > 1) begin("comparing");
  if (options_.dumps.size() > 1) compared = run_job(JobKind::compare);
  const Comparison comparison = answer_in<Comparison>(compared);
  const ReportFocus focus{options_, overviews_, first_bad, comparison};
  Result<std::vector<Place>> places = focus.places();
  if (!places) return places.error();
  places_ = std::move(*places);
  suspects_ = focus.suspects();

  begin("writing maps and graphs");
  put_first();
  JobList jobs;
  if (compared) {
    put_json("comparison", "jobs/" + std::to_string(compared->job.job), {}, json_of_text(compared->text()));
    jobs.jobs.push_back(compared->job);
  }
  put_json("overview", "jobs", {}, json_of(jobs));
  for (const FocusOp& suspect : suspects_) put_suspect(suspect);
  std::set<std::pair<std::string, std::uint64_t>> graphs;
  for (const Place& place : places_) {
    if (!graphs.emplace(place.rank, place.graph).second) continue;
    const Fields query = {{"rank", place.rank}, {"graph", std::to_string(place.graph)}};
    put("matrices of gradients", "gradients", with(query, {{"w", "400"}, {"h", "60"}}));
    put_health(query, "", 0);
    put_health_of_ranks(query, place.rank);
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
    const std::optional<JobResult> next = run_job(JobKind::next_config);
    if (next) put_json("next configuration", "jobs/next-config", {}, json_of_text(next->text()));
  }
  begin("writing tables, sources and operators");
  for (const Place& place : places_) {
    if (Status good = put_tables(place); !good) return good.error();
  }
  put_source();
  if (Status good = put_selected(); !good) return good.error();
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
