// A source file as the rules of the house see it: its place, its text, its comments, its code.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace troupe {

struct Source {
  std::string path;  // relative to the root of the tree, for example "graph/graph.cpp"
  std::string text;
};

// A finding of a rule. `place` and `size` are what tests/house/debts.txt counts: sizes of one place
// add up.
struct Violation {
  std::string file;   // relative to the root of the tree
  int line = 0;       // from 1; 0: the file as a whole
  std::string what;   // the error, and how it is right
  std::string place;  // empty: the file
  int size = 1;
};
std::string to_string(const Violation& violation);  // "graph/graph.cpp:12: ..."

bool is_header(std::string_view path);
bool is_code(std::string_view path);  // C++, CUDA, protobuf
bool is_public_header(std::string_view path);
std::string folder_of(std::string_view path);  // "actors/engine"; "." at the root
std::string top_of(std::string_view path);     // "actors"

std::vector<std::string> lines_of(std::string_view text);
int line_at(std::string_view text, size_t position);  // from 1

// C++ text in which comments are spaces and strings are empty. It has the same length and lines.
std::string code_of(std::string_view text);

struct Piece {  // a comment or a string of a C++ file, without its marks
  int line;
  std::string text;
};
// Comments. `//` lines that follow each other, with nothing before the second, are one.
std::vector<Piece> comments_of(std::string_view text);
std::vector<Piece> strings_of(std::string_view text);

// The files of the tree at `root` that the rules are about, in order of their paths.
std::vector<Source> read_tree(const std::string& root);

}  // namespace troupe
