// Keeps the history, and reads and writes its file. The file has a head, a line for the best epoch
// if there is one, and a line for each epoch:
//
//   troupe epochs 2
//   best 2 step 46 score 0.975
//   epoch 1 step 23 loss 0.53 best 1 rate_scale 0.1 "accuracy" 0.94 "loss" 0.31
//
// The first form has no rate scale.
#include "training/loop/fit_history.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include "graph/attr_text.hpp"

namespace troupe {
namespace {

constexpr const char* kFile = "epochs.txt";
constexpr const char *kHead = "troupe epochs 2", *kFirstHead = "troupe epochs 1";
constexpr int64_t kBytesMax = int64_t{64} << 20;

}  // namespace

bool FitHistory::better(double score, double than) const {
  return policy_.greater_is_better ? score > than + policy_.min_improvement
                                   : score < than - policy_.min_improvement;
}

bool FitHistory::improves(double score) const {
  return !std::isnan(score) && (!best_ || better(score, best_->score));
}

double FitHistory::watched(const FitEpoch& epoch) const {
  const auto it = epoch.scores.find(policy_.watch);
  return it == epoch.scores.end() ? std::numeric_limits<double>::quiet_NaN() : it->second;
}

void FitHistory::add(FitEpoch& epoch) {
  std::erase_if(epochs_, [&](const FitEpoch& old) { return old.step >= epoch.step; });
  const double score = watched(epoch);
  if (improves(score)) best_ = {epoch.epoch, epoch.step, score};
  // Compared with the epochs before it, so that a repeated epoch is judged as it was the first
  // time.
  const auto before = std::find_if(epochs_.rbegin(), epochs_.rend(),
                                   [](const FitEpoch& old) { return old.is_best; });
  epoch.is_best =
      !std::isnan(score) && (before == epochs_.rend() || better(score, watched(*before)));
  epochs_.push_back(epoch);
}

bool FitHistory::wants_stop() const {
  if (policy_.stop_after <= 0 || epochs_.empty()) return false;
  return epochs_.back().epoch - (best_ ? best_->epoch : 0) >= policy_.stop_after;
}

std::optional<double> FitHistory::lower_scale() const {
  const Plateau& plateau = policy_.plateau;
  if (plateau.epochs <= 0 || epochs_.empty()) return std::nullopt;
  const double scale = epochs_.back().rate_scale;
  int64_t waited = 0;
  for (auto e = epochs_.rbegin(); e != epochs_.rend(); ++e, ++waited)
    if (e->is_best || e->rate_scale != scale) break;
  const double lower = std::max(scale * plateau.factor, plateau.least);
  if (waited < plateau.epochs || lower >= scale) return std::nullopt;
  return lower;
}

std::string FitHistory::to_text() const {
  std::ostringstream out;
  out << kHead << "\n";
  if (best_)
    out << "best " << best_->epoch << " step " << best_->step << " score "
        << exact_text(best_->score) << "\n";
  for (const FitEpoch& e : epochs_) {
    out << "epoch " << e.epoch << " step " << e.step << " loss " << exact_text(e.loss) << " best "
        << (e.is_best ? 1 : 0) << " rate_scale " << exact_text(e.rate_scale);
    for (const auto& [name, score] : e.scores)
      out << " " << quoted(name) << " " << exact_text(score);
    out << "\n";
  }
  return out.str();
}

void FitHistory::from_text(const std::string& text, const std::string& file) {
  std::istringstream in(text);
  std::string line;
  int number = 1;
  try {
    if (!std::getline(in, line) || (line != kHead && line != kFirstHead))
      throw Error(Errc::bad_data, "expected \"", kHead, "\", found \"", line, "\"");
    while (std::getline(in, line)) {
      ++number;
      LineReader r(line);
      if (r.take("best")) {
        Best best;
        best.epoch = r.integer();
        r.expect("step");
        best.step = r.integer();
        r.expect("score");
        best.score = r.real();
        best_ = best;
        continue;
      }
      FitEpoch e;
      r.expect("epoch");
      e.epoch = r.integer();
      r.expect("step");
      e.step = r.integer();
      r.expect("loss");
      e.loss = r.real();
      r.expect("best");
      e.is_best = r.integer() != 0;
      if (r.take("rate_scale")) e.rate_scale = r.real();
      while (!r.at_end()) {
        const std::string name = r.quoted_text();
        e.scores[name] = r.real();
      }
      if (!epochs_.empty() && e.step <= epochs_.back().step)
        throw Error(Errc::bad_data, "step ", e.step, " does not follow ", epochs_.back().step);
      epochs_.push_back(std::move(e));
    }
  } catch (const Error& e) {
    throw Error(Errc::bad_data, file, ":", number, ": ", e.what(),
                "; remove the file to go on without the epochs before");
  }
}

void FitHistory::save(Disk& disk, const std::string& dir) const {
  AtomicFile file(disk, dir, kFile, AtomicFile::IfThere::replace);
  file.write(to_text());
  file.commit();
}

void FitHistory::load(Disk& disk, const std::string& dir) {
  disk.make_dirs(dir);
  const std::vector<std::string> names = disk.list(dir);
  if (std::find(names.begin(), names.end(), kFile) == names.end()) return;
  const std::string path = dir + "/" + kFile;
  from_text(read_text(disk, path, kBytesMax), path);
}

}  // namespace troupe
