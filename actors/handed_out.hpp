// Handed out: what a session writes for whoever watches the program from outside, into files that
// the environment names: TROUPE_GRAPH_OUT its graph with the calls that were prepared, whenever one
// is; TROUPE_TRACE_OUT its trace, from its beginning to its end. `troupe graph` and `troupe trace`
// set them for the programs that they run.
#pragma once

#include <functional>
#include <string>

#include "troupe/session.hpp"

namespace troupe {

// Null if the environment asks for none.
const char* graph_wanted();
const char* trace_wanted();

// "# call: fetches a:0; feeds x:0": a line that readers of a graph's text skip.
std::string call_line(const std::vector<Output>& fetches, const std::vector<Output>& feeds);

// The whole text at once: who reads the file never sees half of it. Returns what failed; empty:
// nothing.
std::string hand_out(const char* path, const std::string& text);

}  // namespace troupe
