// Whether two runs are those of one program, which names match, or of two implementations, which values relate.
#pragma once

#include "ask/compare/compare.h"
#include "read/catalog/catalog.h"

namespace sonde {

bool are_two_implementations(const Catalog& target, const Catalog& golden, const CompareOptions& options);

// A dump without a journal does not say its framework: MindSpore's own beside a run of PyTorch.
bool are_of_two_frameworks(const Catalog& target, const Catalog& golden);
bool has_journals(const Catalog& catalog);

// Parameters of both have the same names: a quarter of those of the side with fewer.
bool have_names_in_common(const Catalog& target, const Catalog& golden);

// In some steps most results have other sizes: a decoder with a cache beside one that computes all tokens again.
bool have_other_lengths(const Catalog& target, const Catalog& golden);

}  // namespace sonde
