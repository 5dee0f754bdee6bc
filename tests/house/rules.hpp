// The rules of the house that a program can check: who may include whom, what a file begins with,
// how long a line may be.
//
// Plain functions over text, so that the rules themselves can be tested on small bad examples.
#pragma once

#include <string>
#include <vector>

namespace troupe {

struct Violation {
  std::string file;  // relative to the root of the source tree
  int line = 0;      // from 1; 0: the file as a whole
  std::string what;  // what is wrong and what would be right
};
std::string to_string(const Violation& violation);  // "graph/graph.cpp:12: ..."

// A source file by its place in the tree, for example "graph/graph.cpp", and its text.
std::vector<Violation> check_file(const std::string& path, const std::string& text);

// What only shows when all files are seen together: the number of public headers.
std::vector<Violation> check_tree(const std::vector<std::string>& paths);

// The files of the tree at `root` that the rules are about, relative to it, in order.
std::vector<std::string> files_of(const std::string& root);

}  // namespace troupe
