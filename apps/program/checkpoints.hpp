// The folders of checkpoints that a program has in --out: whether there is something to go on from,
// of which work it is, and its removal.
//
// Owner: the program. Thread: its main one.
#pragma once

#include <string>

#include "apps/program/out_folder.hpp"

// Does a folder have a whole checkpoint? One that was cut off on the way has no manifest.
bool has_checkpoint(const std::filesystem::path& folder);

// Removes a folder and prints, behind `label`, how many steps of which training that takes away.
void remove_checkpoints(const std::filesystem::path& folder, const std::string& label);

// The work that the checkpoints in `out` are of, as a line for people: "linear model, prior
// precision 1". It is in the file work.txt. Throws: Error(bad_configuration) with both lines if it
// is another work than `work`, so that --resume mixes nothing.
void require_work(const OutFolder& out, const std::string& work);

// Removes all folders checkpoint* in `out`, as remove_checkpoints() does.
void remove_all_checkpoints(const OutFolder& out);

// The same, and then writes the work of this run.
void begin_work(const OutFolder& out, const std::string& work);
