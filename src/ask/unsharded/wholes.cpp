#include "ask/unsharded/wholes.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "ground/base/text.h"

namespace sonde {
namespace {

// `of (16, 8)` and `from (8, 0)` of `Shard(0) of (16, 8) on tp=2, from (8, 0)`. Empty: the text does not say it.
BlockShape sizes_after(std::string_view placement, std::string_view word) {
  BlockShape sizes;
  const std::size_t at = placement.find(word);
  if (at == std::string_view::npos) return sizes;
  std::string_view text = placement.substr(at + word.size());
  for (std::string_view size : fields_in(text.substr(0, text.find(')')), ',')) {
    size.remove_prefix(std::min(size.find_first_not_of(' '), size.size()));
    if (size.empty()) continue;  // of `(8,)`
    std::int64_t number = 0;
    if (std::from_chars(size.data(), size.data() + size.size(), number).ec != std::errc()) return {};
    sizes.push_back(number);
  }
  return sizes;
}

// The ranks that a placement is about: 4 of `on data=2 × tensor=2`. A mesh of fewer ranks than the run has says nothing
// about the others.
std::int64_t ranks_of_mesh(std::string_view placement) {
  const std::size_t at = placement.find(" on ");
  if (at == std::string_view::npos) return 0;
  std::string_view text = placement.substr(at);
  text = text.substr(0, text.find(','));
  std::int64_t count = 1;
  for (std::size_t sign = text.find('='); sign != std::string_view::npos; sign = text.find('=', sign + 1)) {
    std::int64_t size = 0;
    if (std::from_chars(text.data() + sign + 1, text.data() + text.size(), size).ec == std::errc()) count *= size;
  }
  return count;
}

// Copies a part into the whole, from `begin` on in each dimension. False: it does not fit in.
bool put_part(const TensorBlock& part, const BlockShape& begin, TensorBlock& whole) {
  if (part.shape.size() != whole.shape.size()) return false;
  for (std::size_t i = 0; i < begin.size(); ++i) {
    if (begin[i] + part.shape[i] > whole.shape[i]) return false;
  }
  for (std::size_t i = 0; i < part.values.size(); ++i) {
    std::int64_t at = 0, rest = static_cast<std::int64_t>(i), stride = 1;
    for (std::size_t axis = part.shape.size(); axis-- > 0;) {
      at += (begin[axis] + rest % part.shape[axis]) * stride;
      rest /= part.shape[axis];
      stride *= whole.shape[axis];
    }
    whole.values[static_cast<std::size_t>(at)] = part.values[i];
  }
  return true;
}

// The whole tensor, as the placements of the parts say. Nothing: one has none, or has a part of a sum.
std::optional<TensorBlock> whole_by_placements(const TensorBlocks& blocks, const TensorParts& parts) {
  TensorBlock whole;
  for (std::size_t rank = 0; rank < parts.ranks(); ++rank) {
    const CatalogTensor* tensor = parts.at(rank, 0).tensor;
    if (tensor == nullptr) continue;
    const std::string_view placement = tensor->placement;
    const BlockShape shape = sizes_after(placement, " of (");
    const bool is_of_all = ranks_of_mesh(placement) == static_cast<std::int64_t>(parts.ranks());
    if (!is_of_all || shape.empty() || placement.find("Partial") != std::string_view::npos) return std::nullopt;
    if (!whole.known)
      whole = {true, shape, std::vector<double>(static_cast<std::size_t>(element_product(shape, 0, shape.size()))), 0};
    BlockShape begin = sizes_after(placement, "from (");
    begin.resize(shape.size());
    if (shape != whole.shape || !put_part(blocks[rank], begin, whole)) return std::nullopt;
  }
  if (!whole.known) return std::nullopt;
  whole.sum = std::accumulate(whole.values.begin(), whole.values.end(), 0.0);
  return whole;
}

constexpr std::size_t kMostOfWhole = 1 << 22;  // elements, where a dimension was made of two

// The ways to put parts with this shape together.
std::vector<JoinRule> rules_for(const BlockShape& part, std::size_t count) {
  std::vector<JoinRule> rules = {{JoinRule::Way::same, 0, count}};
  for (std::size_t axis = 0; axis < part.size(); ++axis) rules.push_back({JoinRule::Way::cut, axis, count});
  rules.push_back({JoinRule::Way::sum, 0, count});
  return rules;
}

// Of a dimension that was made of two, as the batch and the heads of an attention, the ranks may have parts of the second.
std::vector<JoinRule> rules_with_leading(const BlockShape& part, std::size_t count) {
  std::vector<JoinRule> rules;
  for (std::size_t axis = 0; axis < part.size(); ++axis) {
    const std::int64_t most = std::min<std::int64_t>(part[axis], kMostLeadingBlocks);
    for (std::int64_t leading = 2; leading <= most; ++leading) {
      if (part[axis] % leading == 0) rules.push_back({JoinRule::Way::cut, axis, count, leading});
    }
  }
  return rules;
}

// The tensors that the golden parts can be of, without those that the target's parts have too few elements for.
class Wholes {
 public:
  explicit Wholes(const TensorBlocks& target);

  void add(const TensorBlocks& blocks, std::vector<std::size_t> sizes);
  // Of a mesh with one dimension.
  void add_with_leading(const TensorBlocks& blocks);
  std::vector<TensorBlock>& found() { return found_; }

 private:
  std::size_t most_ = 0;  // elements
  std::vector<TensorBlock> found_;
};

Wholes::Wholes(const TensorBlocks& target) {
  for (const TensorBlock& block : target) most_ += block.values.size();
}

void Wholes::add(const TensorBlocks& blocks, std::vector<std::size_t> sizes) {
  if (sizes.empty()) {
    const TensorBlock& whole = blocks.front();
    const bool is_known =
        std::ranges::any_of(found_, [&](const TensorBlock& other) { return are_alike_blocks(whole, other, 0); });
    if (whole.known && whole.values.size() <= most_ && !is_known) found_.push_back(whole);
    return;
  }
  const std::size_t count = sizes.back();
  sizes.pop_back();
  for (const JoinRule& rule : rules_for(blocks.front().shape, count)) {
    if (const std::optional<TensorBlocks> joined = join_neighbours(blocks, count, rule)) add(*joined, sizes);
  }
}

void Wholes::add_with_leading(const TensorBlocks& blocks) {
  if (blocks.size() * blocks.front().values.size() > kMostOfWhole) return;
  for (const JoinRule& rule : rules_with_leading(blocks.front().shape, blocks.size())) {
    if (const std::optional<TensorBlocks> joined = join_neighbours(blocks, blocks.size(), rule)) add(*joined, {});
  }
}

}  // namespace

std::vector<TensorBlock> wholes_of(const TensorBlocks& golden, const TensorParts& parts, const TensorBlocks& target) {
  if (parts.is_one()) return golden;
  if (std::optional<TensorBlock> whole = whole_by_placements(golden, parts)) return {std::move(*whole)};
  Wholes wholes(target);
  for (const std::vector<std::size_t>& sizes : mesh_sizes(parts.ranks())) wholes.add(golden, sizes);
  wholes.add_with_leading(golden);
  return std::move(wholes.found());
}

}  // namespace sonde
