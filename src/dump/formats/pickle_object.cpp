#include "dump/formats/pickle_object.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace sonde::pickle {
namespace {

constexpr std::size_t kDeepest = 100;
constexpr std::size_t kLongestKey = 1000;
constexpr std::size_t kMostNameBytes = std::size_t{1} << 26;

class Walk {
 public:
  Walk(const std::deque<PickleNode>& nodes, const std::vector<PickledTensor>& tensors, Pickled& out)
      : nodes_(nodes), tensors_(tensors), out_(out), seen_(nodes.size()) {}

  // The reason why the object is refused; empty if it is accepted.
  std::string run(PickleId root) {
    left_.push_back({root, "", 0});
    while (!left_.empty() && refused_.empty()) {
      Place place = std::move(left_.back());
      left_.pop_back();
      const PickleNode& node = nodes_[place.node];
      if (node.kind == Kind::tensor) {
        out_.tensors.push_back(tensors_[static_cast<std::size_t>(node.integer)]);
        out_.tensors.back().name = std::move(place.name);
      } else if (node.kind == Kind::sequence || node.kind == Kind::dictionary) {
        if (place.depth == 0) add_texts_of(node);
        add_items_of(node, place);
      }
    }
    return std::move(refused_);
  }

 private:
  struct Place {
    PickleId node;
    std::string name;
    std::size_t depth;
  };

  void add_texts_of(const PickleNode& node) {
    for (const PickleId item : node.items) {
      if (nodes_[item].kind == Kind::text) out_.texts.push_back(nodes_[item].text);
    }
  }

  void add_items_of(const PickleNode& node, const Place& place) {
    if (place.depth == kDeepest) {
      refused_ = fmt::format("the object is nested deeper than {}", kDeepest);
      return;
    }
    const bool is_dictionary = node.kind == Kind::dictionary;
    const std::size_t step = is_dictionary ? 2 : 1;
    const std::size_t before = left_.size();
    for (std::size_t i = step - 1; i < node.items.size() && refused_.empty(); i += step) {
      const PickleId item = node.items[i];
      const Kind kind = nodes_[item].kind;
      if (seen_[item] || (kind != Kind::tensor && kind != Kind::sequence && kind != Kind::dictionary)) continue;
      seen_[item] = true;
      std::string name = std::to_string(i / step);
      if (is_dictionary) name = key_text(nodes_[node.items[i - 1]], name);
      if (!place.name.empty()) name.insert(0, place.name + ".");
      name_bytes_ += name.size();
      if (name_bytes_ > kMostNameBytes) refused_ = "the names in the object are too long";
      left_.push_back({item, std::move(name), place.depth + 1});
    }
    std::reverse(left_.begin() + static_cast<std::ptrdiff_t>(before), left_.end());  // the first is popped first
  }

  static std::string key_text(const PickleNode& key, const std::string& otherwise) {
    if (key.kind == Kind::text) return std::string(key.text.substr(0, kLongestKey));
    return key.kind == Kind::integer ? std::to_string(key.integer) : otherwise;
  }

  const std::deque<PickleNode>& nodes_;
  const std::vector<PickledTensor>& tensors_;
  Pickled& out_;
  std::vector<bool> seen_;
  std::vector<Place> left_;
  std::size_t name_bytes_ = 0;
  std::string refused_;
};

}  // namespace

std::string collect(const std::deque<PickleNode>& nodes, PickleId root, const std::vector<PickledTensor>& tensors,
                    Pickled& out) {
  return Walk(nodes, tensors, out).run(root);
}

}  // namespace sonde::pickle
