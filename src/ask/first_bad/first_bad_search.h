// The parts of first_bad: the search of one rank, and the text for a root that it found.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ask/first_bad/first_bad.h"
#include "ask/first_bad/rank_facts.h"
#include "ask/first_bad/value_flow.h"
#include "read/catalog/catalog.h"
#include "read/index/partial_catalog.h"
#include "read/measure/health.h"

namespace sonde {

// One rank, step by step, up to the first step with an error.
class RankSearch {
 public:
  // `number`: the place of the rank in the catalog.
  RankSearch(const CatalogRank& rank, std::size_t number, const FirstBadOptions& options);

  // Fills in the report of the facts. Stops after the step with the first finding.
  void run(RankFacts& facts);

  bool found() const { return flow_ != nullptr; }
  const CatalogRank& rank() const { return rank_; }
  std::size_t step_index() const { return step_; }
  const CatalogStep& step() const { return rank_.steps[step_]; }
  // A step with its ops, which are read first if the catalog lacks them.
  const CatalogStep& step_at(std::size_t index);
  // The outputs of a step whose statistics are known, in order.
  void each_output(std::size_t index, const std::function<void(const OutputSize&)>& take) const;
  ValueFlow& flow() { return *flow_; }
  HealthReader& health() { return health_; }
  std::uint64_t tensors_not_read() const { return tensors_not_read_; }  // by max_overhead
  std::uint64_t trial_ops() const { return trial_ops_; }                // whose results the host threw away
  const ThrownAway& thrown_away() const { return thrown_away_; }
  const DumpSettings& settings() const { return settings_; }
  // The input of the first root comes from outside, and the second root makes it for the next step.
  bool made_as_in_next() const { return made_as_in_next_; }
  // Roots that are errors, earliest first.
  const std::vector<Root>& roots() const { return roots_; }
  // Takes the roots of these ops out, by their places in the flow.
  void leave_out(const std::vector<std::uint32_t>& ops);
  // The effects of a root of an earlier step, in the step where it did harm.
  struct Later {
    StepId step;
    std::string reaches;
    std::vector<std::string> path;
    std::string line;  // of evidence
  };
  const std::optional<Later>& later() const { return later_; }
  // Steps that the loss scaler has skipped one after another, up to this one.
  struct Skips {
    std::size_t count = 0;
    std::uint64_t first_step = 0;
    std::optional<double> scale;  // the last one
  };
  const Skips& skips() const { return skips_; }

 private:
  bool look_at(std::size_t step, RankFacts& facts);
  void note_asides(FirstBad& report);
  void leave_out_thrown_away();
  void find_maker_of_data();
  void follow_into_earlier_step(FirstBad& report);
  void note_healthy(const ValueFlow& flow, const CatalogStep& step, RankFacts& facts);
  const LossPlaces& losses();
  std::size_t steps_with_all_overflows();
  std::unique_ptr<ValueFlow> flow_of(std::size_t index);
  void count_skips(const ValueFlow& flow, const CatalogStep& step);
  bool is_expected(const Root& root);
  void note_expected(FirstBad& report);

  const CatalogRank& rank_;
  std::size_t number_;
  const FirstBadOptions options_;
  DumpSettings settings_;
  std::optional<std::size_t> all_overflows_;  // the number of steps before the one that lacks some
  HealthReader health_;
  std::unique_ptr<ValueFlow> flow_;
  std::size_t step_ = 0;
  std::vector<Root> roots_;
  std::optional<LossPlaces> losses_;
  std::optional<Catalog> loss_makers_;  // owns texts of losses_
  bool made_as_in_next_ = false;
  Skips skips_;
  std::optional<Later> later_;
  std::uint64_t tensors_not_read_ = 0, trial_ops_ = 0;
  ThrownAway thrown_away_;
  std::map<HealthySlot, std::size_t> healthy_;  // into the healthy ones of the report
};

// Operators of the rank that MindSpore ran one by one are not in the dump.
bool ran_in_pynative_mode(const CatalogRank& rank);

// Why no loss scale removes an infinity that made the scaler skip the step; empty: a smaller one does, or nobody knows.
std::string why_no_scale_helps(RankSearch& search, const Root& root);
bool is_stuck(const RankSearch::Skips& skips);  // a smaller scale should have helped by now

// The text for one root; with the lines of code around it.
Finding finding_of(RankSearch& search, const Root& root);
Finding finding_with_code(RankSearch& search, const Root& root, SourceTexts& sources);
// "the loss", "a gradient", "a parameter": the data that the root reaches.
std::string reaches_of(RankSearch& search, const Root& root);

// `kind`: of the first finding.
std::optional<Growth> growth_before(RankSearch& search, WrongKind kind, SourceTexts& sources);

}  // namespace sonde
