// The ledger of gradients as a table: a row for each parameter slice and replica, and their sum.
//
// Owner: none, plain functions.
#pragma once

#include <string>
#include <vector>

#include "troupe/training.hpp"

// All rows in one; its parameter is "total".
troupe::PushCount total_of(const std::vector<troupe::PushCount>& pushes);
// The first row whose counts do not add up to the received ones, in words; empty: all do.
std::string ledger_fault(const std::vector<troupe::PushCount>& pushes);
// Rows in the order given, and the total, below a heading; `rule` names the training.
void print_ledger(const std::vector<troupe::PushCount>& pushes, const std::string& rule);
