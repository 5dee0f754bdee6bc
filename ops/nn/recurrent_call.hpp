// Checks the arguments of lstm(), gru() and their cells before any node is made, so that errors
// name the caller's argument and not the input of an inner product.
#pragma once

#include <initializer_list>

#include "ops/elementwise/composition.hpp"

namespace troupe {

struct RecurrentArgument {
  const char* name;
  Output value;
  // A letter for each dimension: t(ime), b(atch), n, h, and g for all gates.
  const char* form;
};

// `gates`: the number of gates, of h each. Throws: Error(invalid_argument) for the first argument
// that does not fit those before it, with the function, the caller's line, the wanted and the given
// shape.
void require_recurrent_call(const char* function, Origin at, int gates,
                            std::initializer_list<RecurrentArgument> arguments);

}  // namespace troupe
