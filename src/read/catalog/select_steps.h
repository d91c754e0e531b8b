// SelectedStep: the ops of a step that a user chose, for the verbs of the command.
#pragma once

#include <string>
#include <vector>

#include "read/catalog/catalog.h"
#include "read/catalog/dump_part.h"

namespace sonde {

struct SelectedStep {
  CatalogRank* rank = nullptr;
  CatalogStep* step = nullptr;
  std::vector<CatalogOp*> ops;  // those that a pattern selects
};

struct StepSelection {
  std::vector<SelectedStep> steps;
  std::vector<std::string> unmatched;  // patterns that select no op
};

// The steps of the part, with the ops that one of the patterns selects (select.h); all ops where there is no pattern.
StepSelection select_steps(Catalog& catalog, const DumpPart& part, const std::vector<std::string>& patterns);

// Up to three names of ops, types or tensors in these steps like `name`: "nearest: a, b, c"; empty when none is.
std::string nearest_ops(const std::vector<SelectedStep>& steps, const std::string& name);

// Some data of a tensor is in the dump.
bool any_recorded(const Catalog& catalog);

}  // namespace sonde
