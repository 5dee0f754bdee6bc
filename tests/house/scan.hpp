// Scan: the declarations of a C++ file, as far as the rules of the house ask for them: classes with
// their members, functions defined outside of their class, friends, variables that outlive a
// function.
//
// It reads the formatted code of this tree, not all of C++: no types are known, a macro is a word,
// and of `#if` only the first branch counts.
#pragma once

#include <string>
#include <vector>

#include "tests/house/source.hpp"

namespace troupe {

struct ScannedClass {
  std::string name;  // with the classes around it: "Mesh::Core"
  int line = 0;
  int data = 0;       // members that each object has
  int functions = 0;  // also static ones and constructors; not what is `= default` or `= delete`
  int friends = 0;    // classes and types; friend functions do not count
  bool plain = true;  // a public aggregate of values, without functions of its own
  std::vector<std::string> bases = {};
};

struct ScannedVariable {
  std::string name;
  int line = 0;
};

struct Scan {
  std::vector<ScannedClass> classes;
  std::vector<std::string>
      defines;  // classes whose functions are defined outside of them, once each
  // Not constant, and static, thread_local or of a namespace. Every thread_local is among them.
  std::vector<ScannedVariable> mutables;
};

Scan scan(const Source& file);

}  // namespace troupe
