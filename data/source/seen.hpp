// Names of fields, and names and sizes of files, as a program sees them when it builds a graph.
// Each process that reads the source compares them with those that it sees itself. Owner: none,
// plain functions. Thread: any.
#pragma once

#include <string>
#include <vector>

#include "data/files.hpp"
#include "data/source/stage.hpp"

namespace troupe {

// The files as SourceStage::files() tells them. Throws: Error(io).
std::vector<SourceFile> source_files(const Files& files, const std::vector<std::string>& paths);

// The stage `seen` around a source, as arguments. They are small: of many files, several share a
// hash.
SourceArgs seen_args(const Fields& fields, const std::vector<SourceFile>& files);
// Throws: Error(bad_data) that names the first field or file that differs.
void check_seen(const SourceArgs& seen, const Fields& fields, const std::vector<SourceFile>& files);
// The names of the fields. Throws: Error(invalid_argument) for arguments of something else.
std::vector<std::string> seen_fields(const SourceArgs& seen);

}  // namespace troupe
