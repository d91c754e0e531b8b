// A Graph as the text of MindSpore's `.ir` files. The grammars: docs/format.md, "Graphs".
#pragma once

#include <cstdint>
#include <string>

#include "dump/graph/graph.h"
#include "dump/graph/source_text.h"

namespace sonde {

enum class IrGrammar : std::uint8_t {
  v1_2,  // `: (name)`, `# In file F(10)/text/`, `<Tensor[Float32]x[const vector][2, 3]>`; of 1.2 and 1.3
  v2_0,  // `: (name)`, `# In file F:10/text/`
  v2_3,  // `: full_name_with_scope: (name)`, `# In file F(10)/text/`; of 2.3 and 2.5
  v2_7,  // `# Fullname with scope: (name)`, `# In file F:10, 4~20/text/`
};

// `graph` must come from with_tuples(). Source lines show the text that `sources` has.
std::string ir_text(const Graph& graph, IrGrammar grammar, SourceTexts& sources);

// One line of a trace, without its prefix: "In file train.py:8, 15~20/        return a + b/".
std::string source_text(const SourceLine& line, IrGrammar grammar, SourceTexts& sources);

}  // namespace sonde
