#include "ask/first_bad/facts_json.h"

#include <utility>

#include "ground/contract/json.h"
#include "ground/contract/read_json.h"

namespace sonde {
namespace {

constexpr std::size_t kNumbersOfStep = 6;

// Numbers in a row: a thousand ranks have a hundred thousand steps.
Json steps_json(const CatalogRank& rank) {
  Json numbers = Json::array();
  for (const CatalogStep& step : rank.steps) {
    for (const std::uint64_t number : {std::uint64_t{step.id.graph}, step.id.number, std::uint64_t{step.run},
                                       step.started_us, step.ended_us, std::uint64_t{step.ended}}) {
      numbers.push_back(number);
    }
  }
  return numbers;
}

Json requests_json(const CatalogRank& rank) {
  Json all = Json::array();
  for (std::size_t step = 0; step < rank.steps.size(); ++step) {
    for (const StepRequest& one : rank.steps[step].requests) all.push_back({step, one.request});
  }
  return all;
}

Json frame_json(const RankFrame& frame) {
  const CatalogRank& rank = frame.rank;
  Json runs = Json::array(), problems = Json::array();
  for (const CatalogRun& run : rank.runs) {
    runs.push_back({run.finished, run.command, run.saved_data, run.net_name, run.error, run.notes, run.sonde_version,
                    run.world_size});
  }
  for (const CatalogProblem& problem : frame.problems) {
    problems.push_back({problem.path.native(), problem.message, problem.is_lost, static_cast<int>(problem.kind)});
  }
  return {{"rank", rank.rank},
          {"kind", static_cast<int>(rank.kind)},
          {"directory", rank.directory.native()},
          {"metadata", rank.metadata.native()},
          {"journal", rank.has_journal},
          {"runs", std::move(runs)},
          {"steps", steps_json(rank)},
          {"requests", requests_json(rank)},
          {"problems", std::move(problems)}};
}

void add_steps(const Json& json, CatalogRank& rank) {
  const Json& numbers = json.at("steps");
  for (std::size_t at = 0; at + kNumbersOfStep <= numbers.size(); at += kNumbersOfStep) {
    const auto number = [&](std::size_t part) { return numbers.at(at + part).get<std::uint64_t>(); };
    CatalogStep& step = rank.steps.emplace_back();
    step.id = {static_cast<std::uint32_t>(number(0)), number(1)};
    step.run = static_cast<std::size_t>(number(2));
    step.started_us = number(3);
    step.ended_us = number(4);
    step.ended = number(5) != 0;
  }
  for (const Json& one : json.at("requests")) {
    CatalogStep& step = rank.steps.at(one.at(0).get<std::size_t>());
    step.requests.emplace_back().request = one.at(1).get<std::string>();
  }
}

RankFrame frame_of(const Json& json) {
  RankFrame frame;
  CatalogRank& rank = frame.rank;
  rank.rank = json.at("rank").get<std::uint32_t>();
  rank.kind = static_cast<DumpKind>(json.at("kind").get<int>());
  rank.directory = json.at("directory").get<std::string>();
  rank.metadata = json.at("metadata").get<std::string>();
  rank.has_journal = json.at("journal").get<bool>();
  for (const Json& one : json.at("runs")) {
    CatalogRun& run = rank.runs.emplace_back();
    run.finished = one.at(0).get<bool>();
    run.command = one.at(1).get<std::string>();
    run.saved_data = one.at(2).get<std::string>();
    run.net_name = one.at(3).get<std::string>();
    run.error = one.at(4).get<std::string>();
    run.notes = one.at(5).get<std::vector<std::string>>();
    run.sonde_version = one.at(6).get<std::string>();
    run.world_size = one.at(7).get<std::uint32_t>();
  }
  add_steps(json, rank);
  for (const Json& one : json.at("problems")) {
    frame.problems.push_back({one.at(0).get<std::string>(), one.at(1).get<std::string>(), one.at(2).get<bool>(),
                              static_cast<ProblemKind>(one.at(3).get<int>())});
  }
  return frame;
}

// The findings are those of a document, which is written and read by one function each.
Json found_json(const RankFacts::Found& found) {
  FirstBad own;
  if (found.own) own.findings.push_back(*found.own);
  if (found.own_if_later) own.by_rank.push_back(*found.own_if_later);
  Json calls = Json::array();
  for (const RankCall& call : found.calls) {
    calls.push_back({call.meeting, call.op_name, call.number, call.gave_bad, call.got_bad});
  }
  return {{"step", found.step},
          {"first_op", found.op_name},
          {"collectives_before", found.collectives_before},
          {"is_collective", found.is_collective},
          {"own", found.own || found.own_if_later ? document_of(own) : Json()},
          {"calls", std::move(calls)}};
}

FirstBad report_of(const Json& json) {
  Result<Read<FirstBad>> report = read_json<FirstBad>(json);
  return report ? std::move(report->answer) : FirstBad();
}

RankFacts::Found found_of(const Json& json) {
  RankFacts::Found found;
  found.step = json.at("step").get<std::size_t>();
  found.op_name = json.at("first_op").get<std::string>();
  found.collectives_before = json.at("collectives_before").get<std::uint64_t>();
  found.is_collective = json.at("is_collective").get<bool>();
  if (!json.at("own").is_null()) {
    FirstBad own = report_of(json.at("own"));
    if (!own.findings.empty()) found.own = std::move(own.findings.front());
    if (!own.by_rank.empty()) found.own_if_later = std::move(own.by_rank.front());
  }
  for (const Json& one : json.at("calls")) {
    found.calls.push_back({one.at(0).get<std::string>(), one.at(1).get<std::string>(), one.at(2).get<std::uint64_t>(),
                           one.at(3).get<bool>(), one.at(4).get<bool>()});
  }
  return found;
}

}  // namespace

Json json_of(const FactsOfRank& one) {
  const RankFacts& facts = one.facts;
  return {{"frame", frame_json(one.frame)},
          {"report", document_of(facts.report)},
          {"healthy_times", facts.healthy_times},
          {"unrecorded", facts.left_out},
          {"tensors_not_read", facts.tensors_not_read},
          {"trial_ops", facts.trial_ops},
          {"thrown_away", {facts.thrown_away.results, facts.thrown_away.steps, facts.thrown_away.first}},
          {"ran_in_pynative_mode", facts.ran_in_pynative_mode},
          {"found", facts.found ? found_json(*facts.found) : Json()}};
}

std::optional<FactsOfRank> facts_of(const Json& json) try {
  FactsOfRank one;
  one.frame = frame_of(json.at("frame"));
  RankFacts& facts = one.facts;
  Result<Read<FirstBad>> report = read_json<FirstBad>(json.at("report"));
  if (!report) return std::nullopt;
  facts.report = std::move(report->answer);
  facts.healthy_times = json.at("healthy_times").get<std::vector<std::uint64_t>>();
  facts.left_out = json.at("unrecorded").get<std::vector<std::string>>();
  facts.tensors_not_read = json.at("tensors_not_read").get<std::uint64_t>();
  facts.trial_ops = json.at("trial_ops").get<std::uint64_t>();
  const Json& thrown_away = json.at("thrown_away");
  facts.thrown_away = {thrown_away.at(0).get<std::uint64_t>(), thrown_away.at(1).get<std::uint64_t>(),
                       thrown_away.at(2).get<std::string>()};
  facts.ran_in_pynative_mode = json.at("ran_in_pynative_mode").get<bool>();
  if (!json.at("found").is_null()) facts.found = found_of(json.at("found"));
  const bool fits = facts.healthy_times.size() == facts.report.healthy.size() &&
                    (!facts.found || facts.found->step < one.frame.rank.steps.size());
  return fits ? std::optional(std::move(one)) : std::nullopt;
} catch (const std::exception&) {  // of nlohmann's library: a member is missing, or of another type
  return std::nullopt;
}

}  // namespace sonde
