// The verbs of troupe. Each returns an exit code and throws what troupe.cpp turns into one.
#pragma once

#include <string>
#include <vector>

int ops(const std::vector<std::string>& arguments);
int graph(const std::vector<std::string>& arguments);
int trace(const std::vector<std::string>& arguments);
int chaos(const std::vector<std::string>& arguments);
int jobs(const std::vector<std::string>& arguments);
int ledger(const std::vector<std::string>& arguments);
int set(const std::vector<std::string>& arguments);
int replay(const std::vector<std::string>& arguments);
int doctor(const std::vector<std::string>& arguments);
