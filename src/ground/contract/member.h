// The names and places of an answer's members, so that one function writes or reads all answers. contract/members.h, made from
// contract/, has Members<T> of each type and Words<E> of each enum.
#pragma once

#include <string_view>
#include <type_traits>

namespace sonde {

// A member of a document. `left_out`: where it is empty (an empty text or list, false, no number).
template <typename Object, typename Value>
struct Member {
  std::string_view name;
  Value Object::*at;
  bool left_out = false;
};
template <typename Object, typename Value>
Member(const char*, Value Object::*, bool = false) -> Member<Object, Value>;

// An object whose members are members of the object around it.
template <typename Object, typename Value>
struct Merged {
  Value Object::*at;
};
template <typename Object, typename Value>
Merged(Value Object::*) -> Merged<Object, Value>;

// Members that have no other name than in the document.
template <typename Object, typename Value>
struct Rest {
  Value Object::*at;
};
template <typename Object, typename Value>
Rest(Value Object::*) -> Rest<Object, Value>;

template <typename Type>
struct
    Members;  // `each(visit)`: visit(member, ...) of the above; `is_answer`: it has `problems` and `warnings` besides
template <typename Enum>
struct Words;  // `list`, by the enum's numbers

template <typename Type>
concept HasMembers = requires {
  Members<Type>::is_answer;
};
template <typename Row>
inline constexpr bool kIsRest = false;
template <typename Object, typename Value>
inline constexpr bool kIsRest<Rest<Object, Value>> = true;
template <typename Type>
constexpr bool has_rest() {
  return Members<Type>::each([]<typename... Rows>(const Rows&...) { return (kIsRest<Rows> || ...); });
}

// The name of a member in JSON: `name_of(&OperatorPair::source_line)`.
template <typename Object, typename Value>
constexpr std::string_view name_of(Value Object::*at) {
  std::string_view name;
  const auto look = [&]<typename Other>(const Other& member) {
    if constexpr (std::is_same_v<Other, Member<Object, Value>>) {
      if (member.at == at) name = member.name;
    }
  };
  Members<Object>::each([&](const auto&... member) { (look(member), ...); });
  return name;
}

template <typename Enum>
concept HasWords = std::is_enum_v<Enum> && requires {
  Words<Enum>::list;
};

}  // namespace sonde
