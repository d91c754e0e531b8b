#include "read/catalog/msprobe_records.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "ground/base/text.h"

namespace sonde {
namespace {

constexpr std::size_t kMostDimensions = 64;
constexpr int kDeepestItem = 50;

using Kind = JsonReader::Kind;

// `torch.float32`, `mindspore.Float32`, `Float32`.
DType dtype_of(std::string_view text) { return dtype_from_name(text.substr(text.rfind('.') + 1)); }

// A number, a truth value, or the text of a number that JSON cannot express.
bool take_value(JsonReader& json, std::optional<double>& out) {
  double number = 0;
  bool truth = false;
  std::string text;
  if (json.take_number(number)) {
    out = number;
  } else if (json.take_boolean(truth)) {
    out = truth ? 1 : 0;
  } else if (json.take_text(text)) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    text = lower_case(text);
    if (text == "nan" || text == "-nan") out = std::numeric_limits<double>::quiet_NaN();
    if (text == "inf" || text == "infinity" || text == "+inf") out = kInfinity;
    if (text == "-inf" || text == "-infinity") out = -kInfinity;
  } else {
    return false;
  }
  return true;
}

// Whether an object is a tensor or a number: these have a `type`. Other objects contain them.
bool is_leaf(JsonReader& json) {
  if (json.peek() != Kind::object) return false;
  const JsonReader::Place begin = json.place();
  std::string key;
  json.enter_object();
  bool found = false;
  while (!found && json.next_key(key)) {
    found = (key == "type" || key == "dtype") && json.peek() == Kind::text;
    if (!found) json.skip();
  }
  if (!json.failed()) json.back_to(begin);
  return found;
}

// Reads the items of one record.
class ItemReader {
 public:
  ItemReader(JsonReader& json, MsprobeRecord& record) : json_(json), record_(record) {}

  // A list of items, or one of them.
  void read_side(bool is_input) {
    is_input_ = is_input;
    std::uint32_t& next = is_input ? next_input_ : next_output_;
    slot_ = &next;
    if (!json_.enter_array()) return read_item("", 0);
    for (std::size_t i = 0; json_.next_item(); ++i) read_item(std::to_string(i), 1);
  }
  // Items by name.
  void read_named(bool is_input, bool are_parameters) {
    is_input_ = is_input;
    are_parameters_ = are_parameters;
    slot_ = is_input ? &next_input_ : &next_output_;
    std::string key;
    if (!json_.enter_object()) return json_.skip();
    while (json_.next_key(key)) read_item(key, 1);
    are_parameters_ = false;
  }
  // Items with a name of their own. A parameter's gradient is in a list of one.
  void read_other(const std::string& key) {
    is_input_ = false;
    slot_ = &next_output_;
    if (record_.name.ends_with(".debug") || !json_.enter_array()) return read_item(key, 1);
    for (std::size_t i = 0; json_.next_item(); ++i) read_item(i == 0 ? key : key + "." + std::to_string(i), 1);
  }

 private:
  static std::string below(const std::string& key, const std::string& part) {
    return key.empty() ? part : key + "." + part;
  }

  void read_item(const std::string& key, int depth) {
    if (depth > kDeepestItem) return json_.skip();
    std::string part;
    if (json_.peek() == Kind::array) {
      json_.enter_array();
      for (std::size_t i = 0; json_.next_item(); ++i) read_item(below(key, std::to_string(i)), depth + 1);
      return;
    }
    if (json_.peek() != Kind::object) {  // null: not supported by msprobe, but it has its place
      json_.skip();
      ++*slot_;
      return;
    }
    if (is_leaf(json_)) return read_leaf(key);
    json_.enter_object();
    while (json_.next_key(part)) {
      const Kind kind = json_.peek();
      if (kind == Kind::object || kind == Kind::array) {
        read_item(below(key, part), depth + 1);
      } else {
        json_.skip();
      }
    }
  }

  void read_leaf(const std::string& key) {
    MsprobeItem item;
    KnownStatistics statistics;
    std::string field, type;
    bool is_tensor = false;
    json_.enter_object();
    while (json_.next_key(field)) {
      if (field == "dtype") {
        std::string text;
        is_tensor = json_.take_text(text);
        if (is_tensor) {
          item.dtype = dtype_of(text);
        } else {
          json_.skip();
        }
      } else if (field == "shape") {
        read_shape(item);
      } else if (!read_statistic(field, statistics) && !read_text_of(field, "md5", item.checksum) &&
                 !read_text_of(field, "data_name", item.data_name) && !read_text_of(field, "type", type)) {
        if (field != "value" || !take_value(json_, item.constant)) json_.skip();
      }
    }
    item.slot = (*slot_)++;
    if (json_.failed()) return;
    if (is_tensor) {
      add_statistics(statistics, item);
    } else if (!item.constant || type == "str") {
      return;
    }
    item.is_input = is_input_;
    item.is_parameter = are_parameters_;
    if (key != std::to_string(item.slot)) item.key = key;
    record_.items.push_back(std::move(item));
  }

  bool read_text_of(std::string_view field, std::string_view wanted, std::string& out) {
    if (field != wanted) return false;
    if (!json_.take_text(out)) json_.skip();
    return true;
  }

  bool read_statistic(std::string_view field, KnownStatistics& out) {
    constexpr std::pair<std::string_view, std::optional<double> KnownStatistics::*> kFields[] = {
        {"Max", &KnownStatistics::max},
        {"Min", &KnownStatistics::min},
        {"Mean", &KnownStatistics::avg},
        {"Norm", &KnownStatistics::l2norm}};
    for (const auto& [name, member] : kFields) {
      if (field != name) continue;
      if (!take_value(json_, out.*member)) json_.skip();
      return true;
    }
    return false;
  }

  void read_shape(MsprobeItem& item) {
    if (!json_.enter_array()) return json_.skip();
    item.has_shape = true;
    while (json_.next_item()) {
      std::int64_t size = 0;
      if (!json_.take_integer(size)) {
        json_.skip();
        item.has_shape = false;
      } else if (size < 0 || item.shape.size() == kMostDimensions) {
        item.has_shape = false;
      } else {
        item.shape.push_back(size);
      }
    }
    if (!item.has_shape) item.shape.clear();
  }

  static void add_statistics(const KnownStatistics& statistics, MsprobeItem& item) {
    if (!statistics.max && !statistics.min && !statistics.avg && !statistics.l2norm) return;
    item.statistics = statistics;
    if (!item.has_shape) return;
    std::uint64_t count = 1;
    for (const std::int64_t size : item.shape) {
      if (size != 0 && count > std::numeric_limits<std::int64_t>::max() / static_cast<std::uint64_t>(size)) return;
      count *= static_cast<std::uint64_t>(size);
    }
    item.statistics->count = count;
  }

  JsonReader& json_;
  MsprobeRecord& record_;
  bool is_input_ = false, are_parameters_ = false;
  std::uint32_t next_input_ = 0, next_output_ = 0;
  std::uint32_t* slot_ = &next_input_;
};

void read_record(JsonReader& json, MsprobeRecord& record) {
  if (!json.enter_object()) {
    // debug.json of some versions: the variable itself.
    ItemReader(json, record).read_side(false);
    return;
  }
  ItemReader items(json, record);
  std::string key;
  while (json.next_key(key)) {
    if (key == "input_args" || key == "input") {
      items.read_side(true);
    } else if (key == "input_kwargs") {
      items.read_named(true, false);
    } else if (key == "parameters") {
      items.read_named(true, true);
    } else if (key == "output") {
      items.read_side(false);
    } else if (key == "is_recompute") {
      if (!json.take_boolean(record.is_recompute)) json.skip();
    } else if (json.peek() == Kind::object || json.peek() == Kind::array) {
      items.read_other(key);
    } else {
      json.skip();
    }
  }
}

void read_data(JsonReader& json, const std::function<void(MsprobeRecord&&)>& add) {
  if (!json.enter_object()) return json.skip();
  MsprobeRecord record;
  while (json.next_key(record.name)) {
    record.items.clear();
    record.is_recompute = false;
    if (is_leaf(json)) {  // debug.json: a tensor that was saved
      ItemReader(json, record).read_side(false);
    } else {
      read_record(json, record);
    }
    if (json.failed()) return;
    add(std::exchange(record, {}));
  }
}

// "File <path>, line <n>, in <function>, \n <text of the line>"
bool parse_frame(std::string_view text, SourceLine& out) {
  constexpr std::string_view kFile = "File ", kLine = ", line ", kIn = ", in ";
  if (!text.starts_with(kFile)) return false;
  const std::size_t line = text.find(kLine);
  if (line == std::string_view::npos) return false;
  out.file = text.substr(kFile.size(), line - kFile.size());
  text.remove_prefix(line + kLine.size());
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out.line);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (text.starts_with(kIn)) {
    text.remove_prefix(kIn.size());
    out.function = text.substr(0, text.find(", \n"));
    if (out.function.ends_with(',')) out.function.pop_back();
  }
  return true;
}

}  // namespace

std::string read_msprobe_records(std::string_view text, MsprobeHead& head,
                                 const std::function<void(MsprobeRecord&&)>& add) {
  JsonReader json(text);
  std::string key;
  bool has_data = false;
  if (!json.enter_object()) return "byte 0: no JSON object; expected one with 'data'";
  while (json.next_key(key)) {
    std::string* const into = key == "task"        ? &head.task
                              : key == "level"     ? &head.level
                              : key == "framework" ? &head.framework
                                                   : nullptr;
    if (key == "data") {
      has_data = true;
      read_data(json, add);
    } else if (into == nullptr || !json.take_text(*into)) {
      json.skip();
    }
  }
  if (json.failed()) return json.problem();
  return has_data ? "" : "it has no 'data', so it is not a dump of msprobe";
}

std::string read_msprobe_stacks(std::string_view text,
                                const std::function<void(std::vector<std::string>&&, std::vector<SourceLine>&&)>& add) {
  JsonReader json(text);
  std::string key;
  if (!json.enter_object()) return "byte 0: no JSON object";
  while (json.next_key(key)) {  // a number, and [[names], [frames]]
    std::vector<std::string> names;
    std::vector<SourceLine> lines;
    if (!json.enter_array()) {
      json.skip();
      continue;
    }
    for (std::size_t part = 0; json.next_item(); ++part) {
      if (part > 1 || !json.enter_array()) {
        json.skip();
        continue;
      }
      while (json.next_item()) {
        std::string item;
        SourceLine line;
        if (!json.take_text(item)) {
          json.skip();
        } else if (part == 0) {
          names.push_back(std::move(item));
        } else if (parse_frame(item, line)) {
          lines.push_back(std::move(line));
        }
      }
    }
    if (!json.failed()) add(std::move(names), std::move(lines));
  }
  return json.problem();
}

std::string read_msprobe_parents(std::string_view text,
                                 const std::function<void(std::string_view, std::string_view)>& add) {
  JsonReader json(text);
  std::string key, parent;
  if (!json.enter_object()) return "byte 0: no JSON object";
  while (json.next_key(key)) {
    parent.clear();
    if (json.enter_array()) {  // [parent, micro step]
      for (std::size_t i = 0; json.next_item(); ++i) {
        if (i > 0 || !json.take_text(parent)) json.skip();
      }
    } else if (!json.take_text(parent)) {
      json.skip();
    }
    if (!json.failed()) add(key, parent);
  }
  return json.problem();
}

}  // namespace sonde
