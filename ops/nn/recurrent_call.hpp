// What lstm(), gru() and their cells are given, checked before any node is made of it: so that what
// does not fit is named as the caller knows it, and not as an input of a product within.
#pragma once

#include <initializer_list>

#include "ops/elementwise/composition.hpp"

namespace troupe {

struct RecurrentArgument {
  const char* name;
  Output value;
  // A letter for each dimension: t(ime), b(atch), n, h, g for all gates.
  const char* form;
};

// `gates`: how many, of h each. Throws: Error(invalid_argument) for the first argument that does
// not fit those before it, naming the function, the caller's line, what is wanted and what was
// given.
void require_recurrent_call(const char* function, Origin at, int gates,
                            std::initializer_list<RecurrentArgument> arguments);

}  // namespace troupe
