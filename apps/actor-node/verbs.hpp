// The verbs of actor-node, and the flags they share. Both return an exit code and throw what
// actor-node.cpp turns into one.
#pragma once

#include <boost/program_options.hpp>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

int join(const std::vector<std::string>& arguments);
int up(const std::vector<std::string>& arguments);

boost::program_options::options_description common_options();
// Throws: Error(invalid_argument) for a value that no node can use.
void check_common(const boost::program_options::variables_map& given);

// Writes a file that others wait for: whole, or not at all.
std::error_code write_aside(const std::filesystem::path& file, const std::string& text);
