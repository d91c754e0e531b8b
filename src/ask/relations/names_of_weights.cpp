#include "ask/relations/names_of_weights.h"

#include <algorithm>
#include <iterator>

namespace sonde {

// "h#.up#.weight" for "h1.up2.weight".
std::string pattern_of(std::string_view name) {
  std::string pattern;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const bool is_digit = name[i] >= '0' && name[i] <= '9';
    if (!is_digit) {
      pattern += name[i];
    } else if (pattern.empty() || pattern.back() != '#') {
      pattern += '#';
    }
  }
  return pattern;
}

// {1, 2} for "h1.up2.weight".
std::vector<std::int64_t> numbers_of(std::string_view name) {
  std::vector<std::int64_t> numbers;
  bool was_digit = false;
  for (const char letter : name) {
    const bool is_digit = letter >= '0' && letter <= '9';
    if (is_digit && !was_digit) numbers.push_back(0);
    if (is_digit) numbers.back() = (10 * numbers.back() + letter - '0') % 1'000'000'007;
    was_digit = is_digit;
  }
  return numbers;
}

// "wmixk" for "w.mix_k".
std::string letters_of(std::string_view name) {
  std::string letters;
  std::ranges::copy_if(name, std::back_inserter(letters), [](char letter) { return letter != '.' && letter != '_'; });
  return letters;
}

// "blocks.#.fc1.weight" for "blocks.3.fc1.weight": the names of one weight in all layers.
std::string name_in_layers(std::string_view name) {
  std::string pattern;
  for (std::size_t at = 0; at <= name.size();) {
    const std::string_view part = name.substr(at, name.find('.', at) - at);
    const bool is_number = !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
    pattern.append(at == 0 ? "" : ".").append(is_number ? "#" : part);
    at += part.size() + 1;
  }
  return pattern;
}

std::string_view last_names(std::string_view name) {
  const std::size_t last = name.rfind('.');
  if (last == std::string_view::npos || last == 0) return name;
  const std::size_t before = name.rfind('.', last - 1);
  return before == std::string_view::npos ? name : name.substr(before + 1);
}

}  // namespace sonde
