// The parameters of a session, on the side of a function of the program that reads them all, gives
// them values, or writes them down.
// Owner: none, plain functions on a visit. Thread: the program's, which waits.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "training/group/parameter_group.hpp"

namespace troupe {

// Makes all parameters of the session's graph that have no shards yet. Throws:
// Error(invalid_argument) for a graph without parameters.
void make_all(ParameterVisit& group);
// Throws: Error(invalid_argument) if the parameters are another session's.
void want_owner(ParameterVisit& group, const char* what);
// As long as the result lives, no other function trains the parameters or gives them values.
// Throws: Error(invalid_argument) while one does; `caller` is the function's name.
std::shared_ptr<const void> claim_values(ParameterVisit& group, const char* caller);
// The number of steps that all replicas have done. Throws: Error(invalid_argument) while a training
// step is under way, and for replicas that have done different numbers.
int64_t steps_done(ParameterVisit& group, const char* caller);
// Begins an epoch with these values or this checkpoint, at the step `start.next_step`.
void establish(ParameterVisit& group, const ParameterGroup::Start& start);
// Gives the training that runs another rule or rate scale; `taken` is called, or dropped, when it
// has taken it. Throws: as set_rule() and set_rate_scale().
void change_terms(ParameterGroup& group, const TermChange& change, TrainingRequests::Taken taken);
// Throws: Error(invalid_argument), as `caller`, if one of the parameters is a table whose rows are
// made on first touch: `why` says what would be of all its rows, and what to do.
void want_no_tables(const std::vector<ParameterSpec>& parameters, const char* caller,
                    const char* why);
// The parameters of the session that are no tables.
std::vector<ParameterSpec> without_tables(const ParameterVisit& group);
// The newest values of these parameters. Throws: as parameter_values().
std::map<std::string, Tensor> pull_values(const ParameterVisit& group,
                                          const std::vector<ParameterSpec>& parameters);

}  // namespace troupe
