// onednn_steps MODEL THREADS FILE: training steps of a model as a hand-written loop of oneDNN
// calls, without the engine. FILE holds the weights and the batch (bench/models.hpp).
// bench/compare.hpp describes the commands and answers.
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <sstream>

#include "bench/onednn/kit.hpp"
#include "bench/resident.hpp"

namespace {

using namespace onednn_loops;
using troupe::bench::peak_rss_mib;
using troupe::bench::rss_mib_now;

std::unique_ptr<Loop> make(const std::string& name, const std::string& path, Lanes& lanes) {
  const ModelFile file(path);
  const std::map<std::string, std::function<std::unique_ptr<Loop>(const ModelFile&, Lanes&)>>
      models = {{"mlp", make_mlp},           {"cnn", make_cnn},
                {"resnet20", make_resnet20}, {"inception", make_inception},
                {"lstm", make_lstm},         {"sparse-lr", make_sparse_lr}};
  const auto it = models.find(name);
  if (it == models.end()) throw std::runtime_error("there is no loop for the model " + name);
  return it->second(file, lanes);
}

int run(const std::string& name, int threads, const std::string& path) {
  set_lanes(threads);
  Lanes lanes(threads);
  const double idle = rss_mib_now();
  const std::unique_ptr<Loop> loop = make(name, path, lanes);
  std::cout << "ready" << std::endl;
  for (std::string line, word; std::getline(std::cin, line);) {
    std::istringstream in(line);
    int64_t steps = 0;
    if (!(in >> word)) continue;
    if (word == "steps" && in >> steps) {
      std::ostringstream out;
      for (int64_t i = 0; i < steps; ++i) {
        const auto begin = std::chrono::steady_clock::now();
        loop->step();
        const std::chrono::duration<double, std::milli> took =
            std::chrono::steady_clock::now() - begin;
        out << took.count() << ' ';
      }
      std::cout << out.str() << "loss " << loop->loss() << std::endl;
    } else if (word == "memory") {
      std::cout << idle << ' ' << peak_rss_mib() << std::endl;
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 || std::atoi(argv[2]) < 1) {
    std::cerr << "usage: onednn_steps MODEL THREADS FILE\n";
    return 64;
  }
  // oneDNN's own threads would compete with the lanes; OpenMP reads this variable when it is
  // loaded.
  if (const char* set = std::getenv("OMP_NUM_THREADS"); !set || std::string(set) != "1") {
    setenv("OMP_NUM_THREADS", "1", 1);
    execv("/proc/self/exe", argv);
    return 71;
  }
  try {
    return run(argv[1], std::atoi(argv[2]), argv[3]);
  } catch (const std::exception& e) {
    std::cerr << "onednn_steps: " << e.what() << "\n";
    return 70;
  }
}
