// Parts that a run left out: in the text that describes its host, and in notes of its journal.
#pragma once

#include <cstdint>
#include <string_view>

namespace sonde {

// Part of the host's text: MindSpore ran operators one by one when the dump began.
inline constexpr std::string_view kPynativeHost = ", PyNative mode";
inline constexpr std::string_view kPynativeNote =
    "PyNative mode: the operators that MindSpore ran one by one, forward and backward, are not recorded; the dump has "
    "only what it "
    "compiled: the optimizer, @jit functions. With set_context(mode=GRAPH_MODE), or @jit around the training step, "
    "everything is recorded";
// And how many: the notes about max_overhead begin with it.
inline constexpr std::string_view kOverheadNote = "max_overhead";

enum class NoteKind : std::uint8_t { other, overhead, pynative };

inline NoteKind kind_of_note(std::string_view note) {
  if (note.starts_with(kOverheadNote)) return NoteKind::overhead;
  return note.starts_with(kPynativeNote) ? NoteKind::pynative : NoteKind::other;
}

}  // namespace sonde
