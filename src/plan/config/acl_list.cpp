// `dump_list` of an acl.json.
#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "contract/setting_keys.h"
#include "plan/config/acl.h"
#include "plan/config/diagnostics.h"

namespace sonde {
namespace {

constexpr std::string_view kNotFound = "item not found";
constexpr std::string_view kMustBeString = "must be string";
constexpr std::string_view kMustBeArray = "must be array";
constexpr std::string_view kMemberString = "array member must be string";
constexpr std::string_view kMemberObject = "array member must be object";
constexpr std::string_view kEmptyItem = "The configuration item value is empty";
constexpr std::size_t kMostBlack = 100;

// "input0", "output12".
std::optional<SlotName> slot_from(std::string_view text) {
  SlotName slot;
  slot.is_input = text.starts_with("input");
  const std::string_view side = slot.is_input ? "input" : "output";
  if (!text.starts_with(side)) return std::nullopt;
  text.remove_prefix(side.size());
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), slot.index);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  return is_number ? std::optional(slot) : std::nullopt;
}

// Reads one entry; `where` is how CANN calls it: `dump_list[0]`.
class EntryReader {
 public:
  EntryReader(const JsonValue& entry, std::string where, AclComplaints& complaints)
      : entry_(entry), where_(std::move(where)), complaints_(complaints) {}

  DumpListEntry read() {
    DumpListEntry result;
    if (const JsonMember* model = entry_.find(keys::model_name))
      result.model_name = text_of(*model, item(keys::model_name));
    result.layer = names(keys::layer);
    result.watcher_nodes = names(keys::watcher_nodes);
    result.optype_blacklist = blacklist(keys::optype_blacklist);
    result.opname_blacklist = blacklist(keys::opname_blacklist);
    result.opname_range = ranges();
    return result;
  }

 private:
  std::string item(std::string_view key) const { return fmt::format("{}.{}", where_, key); }

  std::string text_of(const JsonMember& member, const std::string& name) {
    if (member.value.is(JsonValue::Kind::string)) return member.value.text;
    complaints_.content(member.value.line, name, kMustBeString);
    return {};
  }

  // A member that the object must have.
  std::string needed_text(const JsonValue& object, std::string_view key, const std::string& where) {
    const std::string name = fmt::format("{}.{}", where, key);
    if (const JsonMember* member = object.find(key)) return text_of(*member, name);
    complaints_.content(object.line, name, kNotFound);
    return {};
  }

  // The elements of the array `key`, all of `kind`.
  std::vector<const JsonValue*> elements(std::string_view key, JsonValue::Kind kind) {
    std::vector<const JsonValue*> result;
    const JsonMember* member = entry_.find(key);
    if (member == nullptr) return result;
    if (!member->value.is(JsonValue::Kind::array)) {
      complaints_.content(member->value.line, item(key), kMustBeArray);
      return result;
    }
    for (std::size_t i = 0; i < member->value.items.size(); ++i) {
      const JsonValue& element = member->value.items[i];
      if (element.is(kind)) {
        result.push_back(&element);
      } else {
        complaints_.content(element.line, fmt::format("{}[{}]", item(key), i),
                            kind == JsonValue::Kind::string ? kMemberString : kMemberObject);
      }
    }
    return result;
  }

  std::vector<std::string> names(std::string_view key) {
    std::vector<std::string> result;
    for (const JsonValue* element : elements(key, JsonValue::Kind::string)) result.push_back(element->text);
    return result;
  }

  std::vector<SlotName> slots(const JsonValue& object, const std::string& where) {
    std::vector<SlotName> result;
    const JsonMember* pos = object.find("pos");
    const std::string name = where + ".pos";
    if (pos == nullptr) {
      complaints_.content(object.line, name, kNotFound);
      return result;
    }
    if (!pos->value.is(JsonValue::Kind::array)) {
      complaints_.content(pos->value.line, name, kMustBeArray);
      return result;
    }
    for (std::size_t i = 0; i < pos->value.items.size(); ++i) {
      const JsonValue& element = pos->value.items[i];
      const std::string place = fmt::format("{}[{}]", name, i);
      if (!element.is(JsonValue::Kind::string)) {
        complaints_.content(element.line, place, kMemberString);
      } else if (const std::optional<SlotName> slot = slot_from(element.text)) {
        result.push_back(*slot);
      } else {
        complaints_.warning(element.line, place,
                            fmt::format("found {}; ignored: a slot is input0, output1, ...", spelled(element)));
      }
    }
    return result;
  }

  std::vector<BlacklistEntry> blacklist(std::string_view key) {
    std::vector<BlacklistEntry> result;
    std::size_t i = 0;
    for (const JsonValue* element : elements(key, JsonValue::Kind::object)) {
      const std::string where = fmt::format("{}[{}]", item(key), i++);
      result.push_back({needed_text(*element, "name", where), slots(*element, where)});
    }
    return result;
  }

  std::vector<OpRange> ranges() {
    std::vector<OpRange> result;
    std::size_t i = 0;
    for (const JsonValue* element : elements(keys::opname_range, JsonValue::Kind::object)) {
      const std::string where = fmt::format("{}[{}]", item(keys::opname_range), i++);
      result.push_back({needed_text(*element, "begin", where), needed_text(*element, "end", where)});
    }
    return result;
  }

  const JsonValue& entry_;
  std::string where_;
  AclComplaints& complaints_;
};

void check_blacklists(const JsonValue& entry, const std::string& where, const Plan& plan, AclComplaints& complaints) {
  for (const std::string_view key : {keys::optype_blacklist, keys::opname_blacklist}) {
    const JsonMember* list = entry.find(key);
    if (list == nullptr || list->value.items.empty()) continue;
    const std::string item = fmt::format("{}.{}", where, key);
    if (plan.acl.dump_level != "op") {
      complaints.conflict(list->line, item,
                          fmt::format("When configuration item dump_level is not set to op, configuration item {} "
                                      "cannot be configured",
                                      item));
    } else if (list->value.items.size() > kMostBlack) {
      complaints.value(list->line, item, std::to_string(list->value.items.size()),
                       "The number of entries exceeds the maximum limit of 100");
    }
  }
}

void check_ranges(const JsonValue& entry, const DumpListEntry& read, const std::string& where, const Plan& plan,
                  AclComplaints& complaints) {
  const JsonMember* ranges = entry.find(keys::opname_range);
  if (ranges == nullptr || read.opname_range.empty()) return;
  const std::string item = where + ".opname_range";
  if (plan.acl.dump_level != "op") {
    complaints.conflict(
        ranges->line, item,
        fmt::format("When configuration item dump_level is not set to op, configuration item {} cannot be configured",
                    item));
    return;
  }
  const JsonMember* model = entry.find(keys::model_name);
  if (model == nullptr) complaints.content(entry.line, where + ".model_name", kNotFound);
  if (model != nullptr && read.model_name.empty()) complaints.content(model->line, where + ".model_name", kEmptyItem);
  for (std::size_t i = 0; i < read.opname_range.size(); ++i) {
    const std::size_t line = ranges->value.items[i].line;
    if (read.opname_range[i].begin.empty()) complaints.content(line, fmt::format("{}[{}].begin", item, i), kEmptyItem);
    if (read.opname_range[i].end.empty()) complaints.content(line, fmt::format("{}[{}].end", item, i), kEmptyItem);
  }
}

void check_watcher(const JsonValue& entry, const DumpListEntry& read, const std::string& where, const Plan& plan,
                   AclComplaints& complaints) {
  const JsonMember* nodes = entry.find(keys::watcher_nodes);
  const std::string item = where + ".watcher_nodes";
  if (plan.acl.scene != Scene::watcher) {
    if (!read.watcher_nodes.empty()) {
      complaints.conflict(nodes->line, item,
                          fmt::format("When configuration item dump_scene is not set to watcher, configuration item {} "
                                      "cannot be configured",
                                      item));
    }
    return;
  }
  if (nodes == nullptr) complaints.content(entry.line, item, kNotFound);
  if (nodes != nullptr && read.watcher_nodes.empty()) complaints.content(nodes->line, item, kEmptyItem);
  if (const JsonMember* model = entry.find(keys::model_name)) {
    complaints.conflict(model->line, where + ".model_name",
                        fmt::format("When configuration item dump_scene is set to watcher, configuration item "
                                    "{}.model_name cannot be configured",
                                    where));
  }
}

}  // namespace

std::vector<DumpListEntry> read_dump_list(const JsonValue& list, AclComplaints& complaints) {
  std::vector<DumpListEntry> result;
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    const std::string where = fmt::format("dump_list[{}]", i);
    if (list.items[i].is(JsonValue::Kind::object)) {
      result.push_back(EntryReader(list.items[i], where, complaints).read());
    } else {
      complaints.content(list.items[i].line, where, kMemberObject);
    }
  }
  return result;
}

void check_dump_list(const JsonValue& list, const Plan& plan, AclComplaints& complaints) {
  for (std::size_t i = 0; i < plan.acl.dump_list.size(); ++i) {
    const DumpListEntry& read = plan.acl.dump_list[i];
    const JsonValue& entry = list.items[i];
    const std::string where = fmt::format("dump_list[{}]", i);
    const auto present = [&](std::string_view key, bool empty) {
      const JsonMember* member = entry.find(key);
      if (member != nullptr && empty) complaints.content(member->line, fmt::format("{}.{}", where, key), kEmptyItem);
    };
    if (!plan.acl.single_ops) {
      present(keys::model_name, read.model_name.empty());
      present(keys::layer, read.layer.empty());
    }
    check_watcher(entry, read, where, plan, complaints);
    check_blacklists(entry, where, plan, complaints);
    check_ranges(entry, read, where, plan, complaints);
  }
}

}  // namespace sonde
