#include "dump/formats/pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <unordered_map>

#include "dump/formats/limits.h"
#include "dump/formats/little_endian.h"
#include "dump/formats/pickle_object.h"
#include "dump/formats/pickle_types.h"

namespace sonde {
namespace {

using namespace pickle;

constexpr std::size_t kMostNodes = std::size_t{1} << 22;

// The known functions.
enum class Call : std::uint8_t { tensor_v2, tensor_v3, quantized, first_argument, with_type, dictionary, nothing };
struct Function {
  std::string_view name;
  Call call;
};
constexpr Function kFunctions[] = {
    {"torch._utils\n_rebuild_tensor_v2", Call::tensor_v2},
    {"torch._utils\n_rebuild_tensor_v3", Call::tensor_v3},
    {"torch._utils\n_rebuild_qtensor", Call::quantized},
    {"torch._utils\n_rebuild_parameter", Call::first_argument},
    {"torch._utils\n_rebuild_parameter_with_state", Call::first_argument},
    {"torch._tensor\n_rebuild_from_type_v2", Call::with_type},
    {"collections\nOrderedDict", Call::dictionary},
    {"collections\ndefaultdict", Call::dictionary},
    {"torch\nSize", Call::first_argument},
    {"torch\ndevice", Call::nothing},
    {"torch.serialization\n_get_layout", Call::nothing},
    {"torch._utils\n_rebuild_meta_tensor_no_storage", Call::nothing},
};

std::string readable(std::string_view global) {
  std::string text(global.substr(0, 200));
  std::ranges::replace(text, '\n', '.');
  return text;
}

class Machine {
 public:
  explicit Machine(std::string_view bytes) : bytes_(bytes) {}

  Result<Pickled> run() {
    while (!error_ && !stopped_) {
      start_ = at_;
      const std::string_view code = take(1);
      if (!error_) run_one(static_cast<std::uint8_t>(code[0]));
    }
    if (!error_ && stack_.empty()) fail(ErrorCode::corrupt, "the pickle ends without an object");
    Pickled out;
    if (!error_) {
      if (const std::string why = collect(nodes_, stack_.back(), tensors_, out); !why.empty()) refuse(why);
    }
    if (error_) return *error_;
    out.storages = std::move(storages_);
    out.bytes = at_;
    return out;
  }

 private:
  // --- used by every opcode
  void fail(ErrorCode code, const std::string& why) {
    if (!error_) error_ = Error{code, fmt::format("{} (byte {} of the pickle)", why, start_)};
  }
  void refuse(const std::string& why) { fail(ErrorCode::unsupported, why); }

  std::string_view take(std::uint64_t count) {
    if (error_ || count > bytes_.size() - at_) {
      fail(ErrorCode::corrupt,
           fmt::format("the pickle is cut off: {} bytes are left of {} that are needed", bytes_.size() - at_, count));
      return {};
    }
    const std::string_view out = bytes_.substr(at_, count);
    at_ += count;
    return out;
  }
  template <typename Number>
  Number take_number() {
    const std::string_view bytes = take(sizeof(Number));
    return error_ ? Number{} : little<Number>(bytes, 0);
  }
  std::string_view take_line() {
    const std::size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) return take(bytes_.size() - at_ + 1);
    const std::string_view line = take(end - at_);
    ++at_;
    return line;
  }

  PickleNode& push(Kind kind) {
    if (nodes_.size() >= kMostNodes) refuse(fmt::format("the pickle has more than {} objects", kMostNodes));
    stack_.push_back(static_cast<PickleId>(nodes_.size()));
    PickleNode& node = nodes_.emplace_back();
    node.kind = kind;
    return node;
  }
  PickleId pop() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) {
      fail(ErrorCode::corrupt, "the pickle takes more objects than it has");
      return push_other();
    }
    const PickleId top = stack_.back();
    stack_.pop_back();
    return top;
  }
  PickleId push_other() {
    push(Kind::other);
    const PickleId id = stack_.back();
    stack_.pop_back();
    return id;
  }
  // Takes all items since the last mark.
  std::vector<PickleId> pop_mark() {
    if (marks_.empty()) {
      fail(ErrorCode::corrupt, "the pickle has no mark where it needs one");
      return {};
    }
    std::vector<PickleId> items(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return items;
  }

  // --- opcodes
  void run_one(std::uint8_t code) {
    if (run_constant(code) || run_text(code) || run_container(code) || run_memo(code) || run_call(code)) return;
    if (code == '.') {
      stopped_ = true;
    } else if (code == 0x80) {
      take(1);
    } else if (code == 0x95) {
      take(8);  // a frame: how the writer cut the bytes
    } else {
      refuse(fmt::format("opcode {} is not allowed; tensors do not need it", name_of(code)));
    }
  }
  static std::string name_of(std::uint8_t code) {
    return code > ' ' && code < 0x7F ? fmt::format("'{}'", static_cast<char>(code)) : fmt::format("{:#04x}", code);
  }

  bool run_constant(std::uint8_t code) {
    switch (code) {
      case 'N':
        push(Kind::other);
        return true;
      case 0x88:
      case 0x89:
        push(Kind::integer).integer = code == 0x88;
        return true;
      case 'J':
        push(Kind::integer).integer = take_number<std::int32_t>();
        return true;
      case 'K':
        push(Kind::integer).integer = take_number<std::uint8_t>();
        return true;
      case 'M':
        push(Kind::integer).integer = take_number<std::uint16_t>();
        return true;
      case 'G':
        take(8);
        push(Kind::other);
        return true;
      case 0x8A:
        push_long(take(take_number<std::uint8_t>()));
        return true;
      case 0x8B:
        push_long(take(take_number<std::uint32_t>()));
        return true;
      default:
        return false;
    }
  }
  void push_long(std::string_view bytes) {
    if (bytes.size() > 8) {
      push(Kind::other);
      return;
    }
    std::int64_t value = !bytes.empty() && (bytes.back() & 0x80) != 0 ? -1 : 0;
    for (std::size_t i = bytes.size(); i-- > 0;) {
      value = static_cast<std::int64_t>(static_cast<std::uint64_t>(value) << 8 | static_cast<std::uint8_t>(bytes[i]));
    }
    push(Kind::integer).integer = value;
  }

  bool run_text(std::uint8_t code) {
    switch (code) {
      case 'X':
      case 'T':
        push_text(take(take_number<std::uint32_t>()));
        return true;
      case 0x8C:
      case 'U':
        push_text(take(take_number<std::uint8_t>()));
        return true;
      case 0x8D:
        push_text(take(take_number<std::uint64_t>()));
        return true;
      case 'B':
        take(take_number<std::uint32_t>());
        push(Kind::other);
        return true;
      case 'C':
        take(take_number<std::uint8_t>());
        push(Kind::other);
        return true;
      case 0x8E:
        take(take_number<std::uint64_t>());
        push(Kind::other);
        return true;
      default:
        return false;
    }
  }
  void push_text(std::string_view text) { push(Kind::text).text = text; }

  bool run_container(std::uint8_t code) {
    switch (code) {
      case '(':
        marks_.push_back(stack_.size());
        return true;
      case '0':
        pop();
        return true;
      case '1':
        pop_mark();
        return true;
      case '2':
        run_duplicate();
        return true;
      case ']':
      case ')':
      case 0x8F:
        push(Kind::sequence);
        return true;
      case '}':
        push(Kind::dictionary);
        return true;
      case 't':
      case 'l':
      case 0x91:
        push_items(Kind::sequence, pop_mark());
        return true;
      case 'd':
        push_items(Kind::dictionary, pop_mark());
        return true;
      case 0x85:
      case 0x86:
      case 0x87:
        run_tuple(code - 0x84U);
        return true;
      case 'a':
        add_items(Kind::sequence, {pop()});
        return true;
      case 'e':
      case 0x90:
        add_items(Kind::sequence, pop_mark());
        return true;
      case 's':
        run_set_item();
        return true;
      case 'u':
        add_items(Kind::dictionary, pop_mark());
        return true;
      default:
        return false;
    }
  }
  void run_duplicate() {
    const PickleId top = pop();
    stack_.push_back(top);
    stack_.push_back(top);
    if (stack_.size() > kMostNodes) refuse(fmt::format("the pickle has more than {} objects", kMostNodes));
  }
  void push_items(Kind kind, std::vector<PickleId> items) {
    if (kind == Kind::dictionary && items.size() % 2 != 0) fail(ErrorCode::corrupt, "a key of the pickle has no value");
    count_items(items.size());
    push(kind).items = std::move(items);
  }
  void count_items(std::size_t count) {
    item_count_ += count;
    if (item_count_ > 4 * kMostNodes) refuse(fmt::format("the pickle has more than {} items", 4 * kMostNodes));
  }
  void run_tuple(std::size_t count) {
    std::vector<PickleId> items(count);
    for (std::size_t i = count; i-- > 0;) items[i] = pop();
    push_items(Kind::sequence, std::move(items));
  }
  void run_set_item() {
    const PickleId value = pop(), key = pop();
    add_items(Kind::dictionary, {key, value});
  }
  void add_items(Kind kind, const std::vector<PickleId>& items) {
    const PickleId to = pop();
    if (error_) return;
    stack_.push_back(to);
    if (nodes_[to].kind != kind || (kind == Kind::dictionary && items.size() % 2 != 0)) {
      return fail(ErrorCode::corrupt, "the pickle puts items into something that is not a container of such");
    }
    count_items(items.size());
    std::vector<PickleId>& into = nodes_[to].items;
    into.insert(into.end(), items.begin(), items.end());
  }

  bool run_memo(std::uint8_t code) {
    switch (code) {
      case 'q':
        remember(take_number<std::uint8_t>());
        return true;
      case 'r':
        remember(take_number<std::uint32_t>());
        return true;
      case 0x94:
        remember(static_cast<std::uint32_t>(memo_.size()));
        return true;
      case 'h':
        recall(take_number<std::uint8_t>());
        return true;
      case 'j':
        recall(take_number<std::uint32_t>());
        return true;
      default:
        return false;
    }
  }
  void remember(std::uint32_t number) {
    if (stack_.empty()) return fail(ErrorCode::corrupt, "the pickle remembers an object that it has not");
    memo_[number] = stack_.back();
    if (memo_.size() > kMostNodes) refuse(fmt::format("the pickle remembers more than {} objects", kMostNodes));
  }
  void recall(std::uint32_t number) {
    const auto found = memo_.find(number);
    if (found == memo_.end()) return fail(ErrorCode::corrupt, "the pickle recalls an object that it never had");
    stack_.push_back(found->second);
    if (stack_.size() > kMostNodes) refuse(fmt::format("the pickle has more than {} objects", kMostNodes));
  }

  // --- functions
  bool run_call(std::uint8_t code) {
    switch (code) {
      case 'c':
        run_global();
        return true;
      case 0x93:
        run_stack_global();
        return true;
      case 'R':
        run_reduce();
        return true;
      case 'b':
        run_build();
        return true;
      case 'Q':
        run_storage(pop());
        return true;
      case 0x81:
      case 0x92:
      case 'o':
      case 'i':
        run_other_call(code);
        return true;
      default:
        return false;
    }
  }
  void run_global() {
    const std::size_t begin = at_;
    take_line();
    take_line();
    if (!error_) push(Kind::global).text = bytes_.substr(begin, at_ - begin - 1);
  }
  void run_stack_global() {
    const PickleId name = pop(), module = pop();
    if (error_) return;
    if (nodes_[name].kind != Kind::text || nodes_[module].kind != Kind::text) {
      return fail(ErrorCode::corrupt, "the name of a global of the pickle is not text");
    }
    made_.push_back(std::string(nodes_[module].text) + '\n' + std::string(nodes_[name].text));
    push(Kind::global).text = made_.back();
  }
  // NEWOBJ, NEWOBJ_EX, OBJ, INST: make an object of a class.
  void run_other_call(std::uint8_t code) {
    std::string what = "a class";
    if (code == 'i') {
      const std::string module(take_line());
      what = readable(module + "." + std::string(take_line()));
    }
    for (auto at = stack_.rbegin(); code != 'i' && at != stack_.rend(); ++at) {
      if (nodes_[*at].kind != Kind::global) continue;
      what = readable(nodes_[*at].text);
      break;
    }
    refuse(fmt::format("opcode {} asks for an object of {}, which is not allowed: nothing in a dump is run",
                       name_of(code), what));
  }
  // Sets attributes of an object. They do not matter for the allowed classes.
  void run_build() {
    pop();
    const PickleId object = pop();
    stack_.push_back(object);
    const Kind kind = nodes_[object].kind;
    if (kind != Kind::dictionary && kind != Kind::tensor) {
      refuse("opcode 'b' sets the state of an object, which is not allowed: nothing in a dump is run");
    }
  }
  void run_reduce() {
    const PickleId arguments = pop(), function = pop();
    if (error_) return;
    call(function, arguments, 0);
  }

  void call(PickleId function, PickleId arguments, std::size_t depth) {
    const std::string_view name = nodes_[function].text;
    const auto known = nodes_[function].kind == Kind::global ? std::ranges::find(kFunctions, name, &Function::name)
                                                             : std::end(kFunctions);
    if (known == std::end(kFunctions) || depth > 2) {
      return refuse(fmt::format("opcode 'R' calls {}, which is not allowed: nothing in a dump is run",
                                nodes_[function].kind == Kind::global ? readable(name) : "something unnamed"));
    }
    if (nodes_[arguments].kind != Kind::sequence) return fail(ErrorCode::corrupt, "arguments are not a tuple");
    const std::vector<PickleId>& items = nodes_[arguments].items;  // nodes stay where they are
    switch (known->call) {
      case Call::tensor_v2:
      case Call::quantized:
        return make_tensor(items, std::nullopt, known->call == Call::quantized ? ~std::size_t{0} : 6);
      case Call::tensor_v3:
        if (items.size() < 7 || nodes_[items[6]].kind != Kind::global) return wrong_arguments(name);
        return make_tensor(items, nodes_[items[6]].text, 7);
      case Call::first_argument:
        if (items.empty()) return wrong_arguments(name);
        stack_.push_back(items[0]);
        return;
      case Call::with_type:
        if (items.size() < 3) return wrong_arguments(name);
        return call(items[0], items[2], depth + 1);
      case Call::dictionary:
        return make_dictionary(items);
      case Call::nothing:
        push(Kind::other);
    }
  }
  void wrong_arguments(std::string_view name) {
    fail(ErrorCode::corrupt, fmt::format("the arguments of {} are not those that it takes", readable(name)));
  }

  // OrderedDict([(key, value), …]), in the pickles of Python 2; otherwise empty.
  void make_dictionary(const std::vector<PickleId>& arguments) {
    std::vector<PickleId> items;
    if (!arguments.empty() && nodes_[arguments.back()].kind == Kind::sequence) {
      for (const PickleId pair : nodes_[arguments.back()].items) {
        if (nodes_[pair].kind != Kind::sequence || nodes_[pair].items.size() != 2) break;
        items.insert(items.end(), nodes_[pair].items.begin(), nodes_[pair].items.end());
      }
    }
    push_items(Kind::dictionary, std::move(items));
  }

  // ('storage', type, key, device, elements)
  void run_storage(PickleId id) {
    if (error_) return;
    const PickleNode& tuple = nodes_[id];
    const bool fits = tuple.kind == Kind::sequence && tuple.items.size() >= 5 &&
                      nodes_[tuple.items[0]].text == "storage" && nodes_[tuple.items[1]].kind == Kind::global &&
                      nodes_[tuple.items[2]].kind == Kind::text && nodes_[tuple.items[4]].kind == Kind::integer;
    if (!fits) return fail(ErrorCode::corrupt, "a persistent id of the pickle is not a storage");
    const std::string_view type = nodes_[tuple.items[1]].text;
    const DType dtype = dtype_of_storage(type);
    const std::int64_t elements = nodes_[tuple.items[4]].integer;
    if (dtype == DType::undefined && !is_untyped(type)) {
      return refuse(fmt::format("storages of type {} are not known", readable(type)));
    }
    if (elements < 0) return fail(ErrorCode::corrupt, "a storage has a negative size");
    PickledStorage storage;
    storage.key = nodes_[tuple.items[2]].text;
    storage.elements = static_cast<std::uint64_t>(elements);
    storage.item_bytes = dtype == DType::undefined ? 1 : info(dtype).item_bytes;
    PickleNode& node = push(Kind::storage);
    node.integer = static_cast<std::int64_t>(storages_.size());
    node.text = type;
    storages_.push_back(storage);
  }

  bool sizes_of(PickleId id, std::vector<std::int64_t>& out) const {
    if (nodes_[id].kind != Kind::sequence || nodes_[id].items.size() > kMostDimensions) return false;
    for (const PickleId item : nodes_[id].items) {
      if (nodes_[item].kind != Kind::integer || nodes_[item].integer < 0) return false;
      out.push_back(nodes_[item].integer);
    }
    return true;
  }
  bool flag_of(PickleId metadata, std::string_view key) const {
    if (nodes_[metadata].kind != Kind::dictionary) return false;
    const std::vector<PickleId>& items = nodes_[metadata].items;
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
      if (nodes_[items[i]].text == key) return nodes_[items[i + 1]].integer != 0;
    }
    return false;
  }

  // (storage, offset, shape, strides, …)
  void make_tensor(const std::vector<PickleId>& items, std::optional<std::string_view> type, std::size_t metadata) {
    if (items.size() < 4 || nodes_[items[0]].kind != Kind::storage || nodes_[items[1]].kind != Kind::integer ||
        nodes_[items[1]].integer < 0) {
      return wrong_arguments("a tensor");
    }
    PickledTensor tensor;
    tensor.storage = storages_[static_cast<std::size_t>(nodes_[items[0]].integer)].key;
    tensor.dtype = type ? dtype_of_global(*type) : dtype_of_storage(nodes_[items[0]].text);
    tensor.offset = static_cast<std::uint64_t>(nodes_[items[1]].integer);
    if (!sizes_of(items[2], tensor.shape) || !sizes_of(items[3], tensor.strides) ||
        tensor.shape.size() != tensor.strides.size()) {
      return wrong_arguments("a tensor");
    }
    if (tensor.dtype == DType::undefined) {
      return refuse(fmt::format("elements of type {} are not known", readable(type.value_or(nodes_[items[0]].text))));
    }
    if (metadata < items.size()) {
      tensor.conjugate = flag_of(items[metadata], "conj");
      tensor.negative = flag_of(items[metadata], "neg");
    }
    push(Kind::tensor).integer = static_cast<std::int64_t>(tensors_.size());
    tensors_.push_back(std::move(tensor));
  }

  std::string_view bytes_;
  std::size_t at_ = 0, start_ = 0, item_count_ = 0;
  bool stopped_ = false;
  std::optional<Error> error_;
  std::deque<PickleNode> nodes_;
  std::vector<PickleId> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint32_t, PickleId> memo_;
  std::deque<std::string> made_;  // names of globals that are stored in two parts
  std::vector<PickledStorage> storages_;
  std::vector<PickledTensor> tensors_;
};

}  // namespace

Result<Pickled> read_pickle(std::string_view bytes) { return Machine(bytes).run(); }

}  // namespace sonde
