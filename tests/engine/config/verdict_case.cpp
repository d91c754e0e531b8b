#include "verdict_case.h"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <utility>

#include "plan/config/selector.h"

namespace sonde::test {
namespace {

using Members = std::vector<std::pair<std::string, std::string>>;

struct Object {
  std::string name;
  std::string scalar;  // JSON text instead of members, when not empty
  Members members;
};

std::vector<Object> good_objects() {
  return {{"common_dump_settings",
           "",
           {{"dump_mode", "0"},
            {"path", "\"/dump\""},
            {"net_name", "\"Net\""},
            {"iteration", "\"all\""},
            {"input_output", "0"},
            {"kernels", "[]"},
            {"support_device", "[0]"}}},
          {"e2e_dump_settings", "", {{"enable", "true"}, {"trans_flag", "true"}}}};
}

std::string long_name(const std::string& object) {
  if (object == "c") return "common_dump_settings";
  if (object == "e") return "e2e_dump_settings";
  if (object == "s") return "sonde_settings";
  return object;
}

Object& object_named(std::vector<Object>& objects, const std::string& name) {
  for (Object& object : objects) {
    if (object.name == name) return object;
  }
  return objects.emplace_back(Object{name, "", {}});
}

void set(std::vector<Object>& objects, const std::string& key, const std::string& value) {
  const std::size_t dot = key.find('.');
  Object& object = object_named(objects, long_name(key.substr(0, dot)));
  if (dot == key.npos) {
    object.scalar = value;
    return;
  }
  for (auto& [name, text] : object.members) {
    if (name == key.substr(dot + 1)) {
      text = value;
      return;
    }
  }
  object.members.emplace_back(key.substr(dot + 1), value);
}

void remove(std::vector<Object>& objects, const std::string& key) {
  const std::size_t dot = key.find('.');
  const std::string name = long_name(key.substr(0, dot));
  if (dot == key.npos) {
    std::erase_if(objects, [&](const Object& object) { return object.name == name; });
    return;
  }
  std::erase_if(object_named(objects, name).members,
                [&](const auto& member) { return member.first == key.substr(dot + 1); });
}

// "{first}\n{second}\n…" as lines of one object, with the place of each key noted.
Edited written(const std::vector<Object>& objects) {
  Edited result;
  std::size_t line = 1;
  result.json = "{";
  for (std::size_t i = 0; i < objects.size(); ++i) {
    const Object& object = objects[i];
    result.json += i > 0 ? ",\n" : "\n";
    result.lines[object.name] = ++line;
    result.json += "\"" + object.name + "\": " + (object.scalar.empty() ? "{" : object.scalar);
    for (std::size_t j = 0; object.scalar.empty() && j < object.members.size(); ++j) {
      result.json += j > 0 ? ",\n" : "\n";
      result.lines[object.name + "." + object.members[j].first] = ++line;
      result.json += "  \"" + object.members[j].first + "\": " + object.members[j].second;
    }
    if (object.scalar.empty()) {
      result.json += "\n}";
      ++line;
    }
  }
  result.json += "\n}\n";
  return result;
}

bool is_environment(const std::string& edit) { return edit.starts_with("env "); }

}  // namespace

Edited edited(const std::vector<std::string>& edits) {
  std::vector<Object> objects = good_objects();
  for (const std::string& edit : edits) {
    const std::size_t equals = edit.find('=');
    if (is_environment(edit)) continue;
    if (edit.starts_with('-')) {
      remove(objects, edit.substr(1));
    } else {
      set(objects, edit.substr(0, equals), edit.substr(equals + 1));
    }
  }
  return written(objects);
}

std::map<std::string, std::string> environment_of(const std::vector<std::string>& edits) {
  std::map<std::string, std::string> variables;
  for (const std::string& edit : edits) {
    const std::size_t equals = edit.find('=');
    if (is_environment(edit)) variables[edit.substr(4, equals - 4)] = edit.substr(equals + 1);
  }
  return variables;
}

std::vector<std::string> split_edits(std::string_view text) {
  constexpr std::string_view kBetween = " ;; ";
  std::vector<std::string> edits;
  while (true) {
    const std::size_t end = text.find(kBetween);
    edits.emplace_back(text.substr(0, end));
    if (end == text.npos) return edits;
    text.remove_prefix(end + kBetween.size());
  }
}

std::vector<VerdictCase> read_verdicts(const std::string& file) {
  std::vector<VerdictCase> cases;
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    if (line.empty() || line.starts_with('#')) continue;
    std::istringstream columns(line);
    VerdictCase one;
    std::string mindspore, sonde, edits;
    columns >> mindspore >> one.mindspore_files >> sonde >> one.sonde_files;
    columns.ignore(1, '\t');
    std::getline(columns, edits);
    one.mindspore_accepts = mindspore == "accept";
    one.sonde_accepts = sonde == "accept";
    one.edits = split_edits(edits);
    one.text = line;
    cases.push_back(std::move(one));
  }
  return cases;
}

int files_of(const Plan& plan) {
  struct Op {
    const char* op_name;
    const char* type;
    int inputs;
  };
  constexpr Op kOps[] = {{"Default/Add-op0", "Add", 2}, {"Default/relu-ReLU/ReLU-op0", "ReLU", 1}};
  Selector selector(plan);
  int files = 0;
  for (std::uint64_t step = 0; step < 2; ++step) {
    if (!plan.iteration.contains(step + plan.initial_iteration)) continue;
    for (const Op& op : kOps) {
      const Selector::Wanted wanted = selector.decide_op(op.op_name, op.type);
      files += (wanted.inputs ? op.inputs : 0) + (wanted.outputs ? 1 : 0);
    }
    for (const char* parameter : {"x", "y"}) files += selector.decide_parameter(parameter) ? 1 : 0;
  }
  return files;
}

PlanResult parse_edits(const std::vector<std::string>& edits) {
  for (const char* name : {"MS_DIAGNOSTIC_DATA_PATH", "MS_ACL_DUMP_CFG_PATH", "ENABLE_MS_GE_DUMP",
                           "ENV_DUMP_IR_LINE_LEVEL", "MINDSPORE_DUMP_IGNORE_USELESS_OUTPUT", "NPU_COLLECT_PATH",
                           "ASCEND_DUMP_PATH", "ASCEND_WORK_PATH", "ASCEND_DUMP_SCENE"}) {
    ::unsetenv(name);
  }
  const auto variables = environment_of(edits);
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  PlanResult result = parse_plan(edited(edits).json, "data_dump.json");
  for (const auto& [name, value] : variables) ::unsetenv(name.c_str());
  return result;
}

}  // namespace sonde::test
