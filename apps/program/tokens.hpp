// The files in --out that say which tokens a program has learnt. Their names have the fingerprint
// of the vocabulary, so those of an earlier training stay when a run begins that may be refused.
//
// Owner: the program. Thread: its main one.
#pragma once

#include <string>

#include "apps/program/out_folder.hpp"
#include "troupe/text.hpp"

// In hexadecimal digits, as the function tokenize takes it.
std::string fingerprint_of(const troupe::Vocabulary& vocabulary);
// OUT/NAME-FINGERPRINT.txt
std::string token_file(const OutFolder& out, const std::string& name,
                       const troupe::Vocabulary& vocabulary);
// A line for require_work(): "a vocabulary of 21 with the fingerprint 49e2da0f9aa53fe4".
std::string work_of(const troupe::Vocabulary& vocabulary);
