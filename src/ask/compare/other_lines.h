// OtherLines: ops that cannot belong together, since both programs have the line of each.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "ask/compare/compare_side.h"
#include "dump/graph/source_text.h"

namespace sonde {

class OtherLines {
 public:
  OtherLines(const CompareSide& target, const CompareSide& golden);

  // The lines of the two have different texts, and each text is also in the other program's source.
  bool have(const CatalogOp& target, const CatalogOp& golden);

 private:
  struct Side {
    SourceTexts texts;
    std::map<std::string, std::set<std::string_view>, std::less<>> lines;  // by file

    std::string_view line_of(const CatalogOp& op);
    bool has(std::string_view file, std::string_view line);
  };

  Side target_, golden_;
};

}  // namespace sonde
