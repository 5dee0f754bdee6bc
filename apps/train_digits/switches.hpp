// The changes of the aggregation rule that --switch names: "200=ssp:3,300=async".
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "troupe/training.hpp"

using Switches = std::map<int64_t, troupe::Aggregation>;  // by the step from which a rule holds

// Throws: troupe::Error(invalid_argument) for text that is no list of steps from 1 on, in ascending
// order, with the name of a rule each.
Switches switches_from(const std::string& text);

// Asks the training of the session, which begins at this step, for the one that holds there and all
// later ones.
void ask(troupe::Session& session, const Switches& switches, int64_t step);
