// The verbs of actor-node, and the flags they share. Both return an exit code and throw what
// actor-node.cpp turns into one.
#pragma once

#include <boost/program_options.hpp>
#include <string>
#include <vector>

int join(const std::vector<std::string>& arguments);
int up(const std::vector<std::string>& arguments);

boost::program_options::options_description common_options();
