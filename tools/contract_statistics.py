"""The statistics of a tensor (contract/statistics.toml): the struct of C++ with its visitor, and the row of Python."""

from __future__ import annotations

from contract_language import Contract, Member

_TYPES = {"number": "double", "count": "std::uint64_t"}

_HEAD = """\
// KnownStatistics: the statistics of one tensor that a dump contains. Made from contract/ by tools/contract.py: a \
change
// here is lost.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "sonde/export.h"

namespace sonde {

// Statistics as the dump has them: one that nobody recorded is absent. Definitions: docs/format.md, "Statistics".
struct KnownStatistics {
"""
_QUESTIONS = """
  // Whether every NaN and every infinity is counted.
  bool counts_non_finite() const { return nan_count && counts_infinities(); }
  bool counts_infinities() const { return positive_inf_count && negative_inf_count; }
  // The elements that are known to be so.
  std::uint64_t non_finite_count() const { return nan_count.value_or(0) + infinity_count(); }
  std::uint64_t infinity_count() const { return positive_inf_count.value_or(0) + negative_inf_count.value_or(0); }
  const std::optional<std::uint64_t>& infinity_count(double sign) const {
    return sign > 0 ? positive_inf_count : negative_inf_count;
  }
  // False when a NaN or an infinity is known of, by its count or because a value shows it.
  SONDE_EXPORT bool all_finite() const;
  friend bool operator==(const KnownStatistics&, const KnownStatistics&) = default;
};

// Calls visit(name, member) for each, in the order of the columns; `statistics.*member` is its value.
template <typename Visit>
void for_each_statistic_member(Visit&& visit) {
"""
_END = """\
}

// Calls visit(name, value) for each. `statistics` may be const.
template <typename Known, typename Visit>
void for_each_statistic(Known& statistics, Visit&& visit) {
  for_each_statistic_member([&](std::string_view name, auto member) { visit(name, statistics.*member); });
}

}  // namespace sonde
"""


def _members(contract: Contract) -> tuple[Member, ...]:
    return contract.types["Statistics"].members


def statistics_header(contract: Contract) -> str:
    """sonde/known_statistics.h."""
    members = _members(contract)
    declarations = [f"  std::optional<{_TYPES[one.type]}> {one.name};" for one in members]
    width = max(map(len, declarations))
    rows = [f"{line:<{width}}  // {one.meaning}\n" for line, one in zip(declarations, members, strict=True)]
    visits = [f'  visit(std::string_view("{one.name}"), &KnownStatistics::{one.name});\n' for one in members]
    return "".join([_HEAD, *rows, _QUESTIONS, *visits, _END])


def statistics_row(contract: Contract) -> str:
    """The named tuple of answer_types.py."""
    kinds = {"number": "float", "count": "int"}
    lines = [
        "class Statistics(NamedTuple):",
        '    """The statistics of one tensor; None if the dump does not have them."""',
        "",
    ]
    for member in _members(contract):
        hides = "  # type: ignore[assignment]  # replaces tuple.count" if member.name == "count" else ""
        lines.append(f"    {member.name}: {kinds[member.type]} | None{hides}")
    reals = sum(member.type == "number" for member in _members(contract))
    lines += ["", "", f"REALS, COUNTS = Statistics._fields[:{reals}], Statistics._fields[{reals}:]"]
    trends = [one.name for one in _members(contract) if one.name not in contract.types["Statistics"].no_trend]
    lines += ["TRENDS = (", *(f'    "{name}",' for name in trends), ")"]
    return "\n".join([*lines, ""])
