// The files that the server keeps for its user between two starts: below $XDG_STATE_HOME/sonde, else ~/.local/state/sonde.
#pragma once

#include <string>

#include "sonde/result.h"

namespace sonde::server {

// The token of this user, so that a page that is open in a browser works on after a restart. Made where there is none, or
// where the file is not this user's alone; new at each start where no file can be kept.
Result<std::string> user_token();

// Opens `address` in the user's browser ($BROWSER, else xdg-open or open), by a file that only the user can read: other
// users see the arguments of programs, and the address has the token.
Status open_in_browser(const std::string& address);

}  // namespace sonde::server
