// Handed out: files that a session writes for tools that watch the program from outside, named by
// the environment: TROUPE_GRAPH_OUT receives its graph with the prepared calls, whenever one is
// prepared; TROUPE_TRACE_OUT its trace, from its beginning to its end. The first session of a
// process writes the named file, later ones that name with .2, .3 and so on appended. `troupe
// graph` and `troupe trace` set these variables for the programs that they run.
// Owner: none, plain functions. Thread: any.
#pragma once

#include <cstdint>
#include <string>

#include "troupe/session.hpp"

namespace troupe {

// Null if the variable is not set.
const char* graph_wanted();
const char* trace_wanted();

// Sessions of a process beyond this many hand out nothing: such a program may make thousands.
inline constexpr int kHandingSessionsMax = 256;

// The path for the session of this number when others write to `path`; sessions are numbered in the
// order in which they first ask. Empty: it writes nothing. Any thread.
std::string path_of_session(const std::string& path, uint64_t session);

// "# call: fetches a:0; feeds x:0": a line that readers of a graph's text skip.
std::string call_line(const std::vector<Output>& fetches, const std::vector<Output>& feeds);

// Writes the whole text at once: a reader never sees half of it. Returns the failure; empty if
// there was none.
std::string hand_out(const std::string& path, const std::string& text);

}  // namespace troupe
