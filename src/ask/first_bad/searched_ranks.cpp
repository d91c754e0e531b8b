#include "ask/first_bad/searched_ranks.h"

#include <utility>

namespace sonde {

RankSearch& SearchedRank::reader() {
  if (!opened_) opened_ = open_();
  return *opened_->search;
}

RankSearch& SearchedRank::search() {
  RankSearch& search = reader();
  if (!has_run_) {
    RankFacts known;
    search.run(known);
    has_run_ = true;
  }
  return search;
}

void SearchedRank::look_for_facts() {
  facts_ = searched(reader());
  has_run_ = true;
}

void SearchedRank::close() {
  if (!opened_) return;
  const std::function<void()> release = std::move(opened_->release);
  opened_.reset();
  has_run_ = false;
  if (release) release();
}

}  // namespace sonde
