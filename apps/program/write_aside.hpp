// Writes a file whole, or not at all: a process that is killed leaves the file that was there.
//
// Owner: the caller. Thread: one for each file.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>

// By way of FILE.part, which stays behind only if the process ends here. On an error `file` is as
// it was.
std::error_code write_aside(const std::filesystem::path& file, const std::string& text);
