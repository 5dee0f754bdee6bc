// Counts right sentences, and draws scenes: each run of equally grey pixels is a rectangle.
#include "apps/captions/answers.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace troupe;

namespace {

constexpr int64_t kColumns = 3, kShades = 8;
constexpr int64_t kCell = 400, kRow = 260, kPicture = 192, kLine = 52;  // sizes; letters of a line

std::string picture(const float* pixels, int64_t side) {
  std::string out;
  const auto shade = [&](int64_t i) { return std::lround(pixels[i] * kShades); };
  for (int64_t y = 0; y < side; ++y)
    for (int64_t x = 0, end = 0; x < side; x = end) {
      const int64_t row = y * side;
      for (end = x + 1; end < side && shade(row + end) == shade(row + x);) ++end;
      if (const auto ink = shade(row + x); ink > 0)
        out += detail::concat("<rect x='", x, "' y='", y, "' width='", end - x,
                              "' height='1' fill-opacity='", static_cast<double>(ink) / kShades,
                              "'/>");
    }
  return out;
}

// A text of several lines, from (x, y) on; returns the y below it.
int64_t write(std::string& out, const std::string& text, int64_t x, int64_t y, const char* color) {
  for (size_t begin = 0; begin < text.size();) {
    size_t end = text.size();
    if (end - begin > kLine) end = text.rfind(' ', begin + kLine);
    out += detail::concat("<text x='", x, "' y='", y, "' fill='", color, "'>",
                          text.substr(begin, end - begin), "</text>\n");
    begin = end + 1, y += 15;
  }
  return y;
}

double share(int64_t part, int64_t all) {
  return all > 0 ? static_cast<double>(part) / static_cast<double>(all) : NAN;
}

}  // namespace

void RightSentences::add(const Tensor& said, const Tensor& right, const Tensor& digits) {
  for (int64_t i = 0; i < right.dim(0); ++i) {
    const int64_t* const a = said.data<int64_t>() + i * kWordsMax;
    const int64_t* const b = right.data<int64_t>() + i * kWordsMax;
    const int64_t count = std::find(b, b + kWordsMax, kStop) - b + 1;
    int64_t same = 0;
    for (int64_t j = 0; j < count; ++j) same += a[j] == b[j];
    right_words_ += same, all_words_ += count;
    const auto n = static_cast<size_t>(digits.data<int64_t>()[i]);
    ++all_[n], right_[n] += same == count;
  }
}

double RightSentences::exact() const {
  return share(std::accumulate(right_.begin(), right_.end(), int64_t{0}),
               std::accumulate(all_.begin(), all_.end(), int64_t{0}));
}

double RightSentences::exact(int64_t digits) const {
  const auto n = static_cast<size_t>(digits);
  return share(right_[n], all_[n]);
}

double RightSentences::words() const { return share(right_words_, all_words_); }

std::string to_sheet(const Tensor& images, const Tensor& right, const Tensor& said) {
  const int64_t n = images.dim(0), side = images.dim(1), rows = (n + kColumns - 1) / kColumns;
  std::string out =
      detail::concat("<svg xmlns='http://www.w3.org/2000/svg' width='", kColumns * kCell,
                     "' height='", rows * kRow, "' font-family='sans-serif' font-size='13'>\n",
                     "<rect width='100%' height='100%' fill='white'/>\n");
  const auto text = [](const Tensor& ids, int64_t i) {
    return sentence(ids.values<int64_t>().subspan(static_cast<size_t>(i * kWordsMax), kWordsMax));
  };
  for (int64_t i = 0; i < n; ++i) {
    const int64_t x = i % kColumns * kCell + 10, y = i / kColumns * kRow + 10;
    out += detail::concat("<g transform='translate(", x, ",", y, ") scale(",
                          static_cast<double>(kPicture) / static_cast<double>(side),
                          ")'><rect width='", side, "' height='", side, "' fill='#eef'/>",
                          picture(images.data<float>() + i * side * side, side), "</g>\n");
    const std::string answer = text(said, i), truth = text(right, i);
    const int64_t below = write(out, answer, x, y + kPicture + 14, "black");
    if (answer != truth) write(out, truth, x, below, "#c00");
  }
  return out + "</svg>\n";
}
