// Files that a process reads to be trusted: its secret, its certificate and key.
// Owner: none, functions only. Thread: any; they block.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace troupe {

enum class Readers { anybody, this_user };

// The first `max` bytes of a file; `what` names it in errors, as "secret" does. Throws: Error(io)
// for a file that cannot be read; Error(bad_configuration) for one that is no file, and, with
// `this_user`, for one that other users can read or write, or that belongs to another user.
std::string read_own_file(const std::string& path, std::string_view what, size_t max,
                          Readers readers);

}  // namespace troupe
