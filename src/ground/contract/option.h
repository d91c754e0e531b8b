// The options of a verb: contract/commands.h, made from contract/, has a struct of each verb and its Options.
#pragma once

#include <string_view>

namespace sonde {

// An option on the command line. Lists of words have `|` between them.
struct OptionFacts {
  const char* name;  // `-s,--select`; of an argument without a name `DUMP`
  const char* help;
  const char* unit = "";
  std::string_view choices = "";   // allowed values; empty: any
  std::string_view excludes = "";  // options that cannot be given, too
  std::string_view needs = "";     // options that must be given, too
  const char* numbers = "";        // the plural of what a list such as 3, 0-5 or 1|4 numbers; empty: it is none
  double least = 0, most = 0;      // of a number; both 0: any
  int words = 0;                   // most words of a list; 0: any number
  char separator = '\0';           // between the values of a list in one word; 0: the option is repeated
  bool is_required = false;
  bool is_dump = false;    // a dump, also one at a URL
  bool is_output = false;  // a file or directory to write
};

template <typename Command, typename Value>
struct Option {
  Value Command::*at;
  OptionFacts facts;
};
template <typename Command, typename Value>
Option(Value Command::*, OptionFacts) -> Option<Command, Value>;

// `verb`, `help`, `footer`, and `each(visit)`: visit(option, ...).
template <typename Command>
struct Options;

}  // namespace sonde
