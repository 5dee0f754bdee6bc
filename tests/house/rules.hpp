// The rules of the house that a program can check, each in the file that its comment names.
//
// Plain functions over text, so that the rules themselves can be tested on small bad examples.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "tests/house/rooms.hpp"
#include "tests/house/source.hpp"

namespace troupe {

// Heads, line lengths, names of types, phrases, log lines (lines.cpp).
std::vector<Violation> check_lines(const Source& file);

// Files flat in one folder; rooms and parts of rooms without a README.md of a few lines; sources
// that stand in no room (folders.cpp).
std::vector<Violation> check_folder_sizes(const std::vector<Source>& tree);
std::vector<Violation> check_readmes(const std::vector<Room>& rooms,
                                     const std::vector<Source>& tree);
std::vector<Violation> check_homes(const std::vector<Room>& rooms, const std::vector<Source>& tree);

// Number and lines of the headers below include/, in all folders (folders.cpp).
std::vector<Violation> check_public_headers(const std::vector<Source>& tree);

// Sizes of classes, and classes whose functions are defined in several sources (classes.cpp).
struct ClassFindings {
  std::vector<Violation> members, functions, sliced, friends;
};
ClassFindings check_classes(const std::vector<Source>& tree);

// Variables that live as long as the process or a thread, and are not constant: of the place
// "file name" (classes.cpp).
std::vector<Violation> check_statics(const Source& file);

// Strings that are names of ops, or of attributes that ops/ declares, in folders that know no op:
// of the place "file name" (names.cpp).
struct OpNames {
  std::set<std::string> ops, attributes;
};
OpNames read_op_names(const std::vector<Source>& tree);
std::vector<Violation> check_names(const OpNames& names, const Source& file);

// Sentences that begin with a clause, heads that say nothing, headers without owner and thread: of
// the place that is the file's folder (words.cpp).
std::vector<Violation> check_sentences(const Source& file);
std::vector<Violation> check_heads(const Source& file);
std::vector<Violation> check_owners(const Source& file);

}  // namespace troupe
