// Handed out: what a session writes for whoever watches the program from outside, into files that
// the environment names: TROUPE_GRAPH_OUT its graph with the calls that were prepared, whenever one
// is; TROUPE_TRACE_OUT its trace, from its beginning to its end. The first session of a process has
// the file that is named, the others that name with .2, .3 and so on behind it. `troupe graph` and
// `troupe trace` set them for the programs that they run.
#pragma once

#include <cstdint>
#include <string>

#include "troupe/session.hpp"

namespace troupe {

// Null if the environment asks for none.
const char* graph_wanted();
const char* trace_wanted();

// Sessions of a process past so many hand out nothing: who makes more makes them by the thousand.
inline constexpr int kHandingSessionsMax = 256;

// Where the session of this number writes what others write to `path`: sessions count in the order
// in which they first ask. Empty: nowhere. Any thread.
std::string path_of_session(const std::string& path, uint64_t session);

// "# call: fetches a:0; feeds x:0": a line that readers of a graph's text skip.
std::string call_line(const std::vector<Output>& fetches, const std::vector<Output>& feeds);

// The whole text at once: who reads the file never sees half of it. Returns what failed; empty:
// nothing.
std::string hand_out(const std::string& path, const std::string& text);

}  // namespace troupe
