// An engine that serves several sequences at once, a row for each token: rows that it puts together, and the golden run
// does not.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ask/relations/blame.h"
#include "ask/relations/numbers_apart.h"

namespace sonde {

class RowsApart {
 public:
  // Of a judgement whose regions are known.
  RowsApart(const Pool& target, const Pool& golden, const RelationJudgement& judgement);

  // A token with the position of another one; keys of several sequences for one.
  std::optional<NumberApart> find() const;
  // The first operator whose result corresponds in another step, or another call of its line, and not here.
  // `of_right_inputs`: nothing that it reads shows a fault before it.
  std::optional<std::uint32_t> first_expected(bool of_right_inputs) const;

 private:
  // Rows of one tensor, by index, as rows of one golden tensor.
  struct Rows {
    std::uint32_t golden = 0;
    std::vector<std::int64_t> at;
  };
  // Embeddings of the tokens of a step, as rows of the golden [sequences, tokens, elements].
  struct Tokens {
    std::uint32_t tensor = 0;
    Rows rows;
  };

  std::optional<Rows> rows_of(std::uint32_t tensor) const;
  std::optional<Tokens> tokens_of(std::uint32_t step) const;
  bool is_of_positions(std::uint32_t golden) const;
  std::optional<std::size_t> first_misplaced(const Tokens& tokens, const Rows& positions) const;
  std::optional<NumberApart> has_other_positions() const;
  std::optional<NumberApart> reads_other_sequences() const;
  bool is_in(std::int64_t sequence, const RelationPart& part) const;
  std::string sequences_in(const Relation& relation) const;
  std::uint32_t first_move(std::uint32_t tensor) const;
  bool reads_only_right(std::uint32_t op) const;
  std::uint32_t maker_of_numbers(std::uint32_t op, std::size_t count) const;

  const Pool& target_;
  const Pool& golden_;
  const RelationJudgement& judgement_;
  std::int64_t sequences_ = 0, length_ = 0;  // of the golden batch; 0: unknown
  std::vector<char> from_tokens_;            // by golden operator: it depends on the tokens
};

}  // namespace sonde
