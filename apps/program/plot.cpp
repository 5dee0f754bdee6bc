// Draws a plot of 640 by 400 pixels with five marks along each axis.
#include "apps/program/plot.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <limits>
#include <set>

using namespace troupe;

namespace {

constexpr double kWidth = 640, kHeight = 400, kLeft = 64, kRight = 16, kTop = 32, kBottom = 48;
constexpr double kColumn = 3;  // pixels
constexpr int kMarks = 5;
const char* const kColours[] = {"#1b6ca8", "#c8553d", "#3a7d44", "#7b4b94", "#b08900", "#444444"};

bool finite(const std::pair<double, double>& p) {
  return std::isfinite(p.first) && std::isfinite(p.second);
}

struct Axis {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  double from = 0, to = 1;  // pixels

  void add(double value) { low = std::min(low, value), high = std::max(high, value); }
  void widen() {  // so that all is inside of it, and no axis is a point
    if (!(low <= high)) low = 0, high = 1;
    if (low == high) low -= 0.5, high += 0.5;
  }
  double at(double value) const { return from + (value - low) / (high - low) * (to - from); }
  double mark(int i) const { return low + (high - low) * i / (kMarks - 1); }
};

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

std::string pixel(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text)
    out += c == '<' ? "&lt;" : c == '&' ? "&amp;" : c == '>' ? "&gt;" : std::string(1, c);
  return out;
}

std::string label(double x, double y, const char* anchor, const std::string& text) {
  return detail::concat("<text x=\"", pixel(x), "\" y=\"", pixel(y), "\" text-anchor=\"", anchor,
                        "\">", escaped(text), "</text>\n");
}

// A line through the points, in pixels. Points in a row that share a column of three pixels look
// the same as their first, lowest, highest and last one (Jugel et al. 2014).
std::string path_through(const std::vector<std::pair<double, double>>& points) {
  std::string out;
  for (size_t begin = 0, end = 0; begin < points.size(); begin = end) {
    const auto column = [&](size_t i) { return std::floor(points[i].first / kColumn); };
    size_t low = begin, high = begin;
    for (end = begin; end < points.size() && column(end) == column(begin); ++end) {
      if (points[end].second < points[low].second) low = end;
      if (points[end].second > points[high].second) high = end;
    }
    for (const size_t i : std::set{begin, low, high, end - 1})
      out += detail::concat(out.empty() ? "M" : "L", pixel(points[i].first), " ",
                            pixel(points[i].second));
  }
  return out;
}

}  // namespace

void Plot::add(const std::string& name, double x, double y) {
  auto at =
      std::find_if(series.begin(), series.end(), [&](const Series& s) { return s.name == name; });
  if (at == series.end()) at = series.insert(at, Series{name});
  auto& points = at->points;
  auto place = points.end();
  while (place != points.begin() && std::prev(place)->first > x) --place;
  if (place != points.begin() && std::prev(place)->first == x)
    std::prev(place)->second = y;
  else
    points.emplace(place, x, y);
}

void Plot::add_csv(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);  // the header
  while (std::getline(in, line)) {
    const size_t y_at = line.rfind(',');
    const size_t x_at = y_at == line.npos || y_at == 0 ? line.npos : line.rfind(',', y_at - 1);
    if (x_at == line.npos) continue;
    char *x_end = nullptr, *y_end = nullptr;
    const double x = std::strtod(line.c_str() + x_at + 1, &x_end);
    const double y = std::strtod(line.c_str() + y_at + 1, &y_end);
    if (x_end == line.c_str() + y_at && *y_end == 0) add(line.substr(0, x_at), x, y);
  }
}

std::string to_csv(const Plot& plot) {
  std::string out = "series,x,y\n";
  for (const Series& s : plot.series)
    for (const auto& [x, y] : s.points) out += detail::concat(s.name, ",", x, ",", y, "\n");
  return out;
}

std::string to_svg(const Plot& plot) {
  Axis x, y;
  x.from = kLeft, x.to = kWidth - kRight, y.from = kHeight - kBottom, y.to = kTop;
  for (const Series& s : plot.series)
    for (const auto& p : s.points)
      if (finite(p)) x.add(p.first), y.add(p.second);
  x.widen(), y.widen();
  std::string out = detail::concat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", kWidth, " ", kHeight,
      "\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" "
      "fill=\"white\"/>\n");
  out += label((x.from + x.to) / 2, 20, "middle", plot.title);
  out += label((x.from + x.to) / 2, kHeight - 10, "middle", plot.x_label);
  out += label(8, 20, "start", plot.y_label);
  for (int i = 0; i < kMarks; ++i) {
    const double px = x.at(x.mark(i)), py = y.at(y.mark(i));
    out += detail::concat("<path d=\"M", pixel(px), " ", pixel(y.to), "V", pixel(y.from), "M",
                          pixel(x.from), " ", pixel(py), "H", pixel(x.to),
                          "\" stroke=\"#dddddd\"/>\n");
    out += label(px, y.from + 16, "middle", number(x.mark(i)));
    out += label(x.from - 6, py + 4, "end", number(y.mark(i)));
  }
  for (size_t i = 0; i < plot.series.size(); ++i) {
    const Series& s = plot.series[i];
    const char* const colour = kColours[i % std::size(kColours)];
    std::vector<std::pair<double, double>> points;  // in pixels
    for (const auto& p : s.points)
      if (finite(p)) points.emplace_back(x.at(p.first), y.at(p.second));
    if (s.dots)
      for (const auto& [px, py] : points)
        out += detail::concat("<circle cx=\"", pixel(px), "\" cy=\"", pixel(py),
                              "\" r=\"3\" fill=\"", colour, "\"/>\n");
    else if (!points.empty())
      out += detail::concat("<path d=\"", path_through(points), "\" fill=\"none\" stroke=\"",
                            colour, "\" stroke-width=\"1.5\"/>\n");
    const double py = y.to + 14 + 16 * static_cast<double>(i);
    out += detail::concat("<rect x=\"", pixel(x.to - 12), "\" y=\"", pixel(py - 9),
                          "\" width=\"10\" height=\"10\" fill=\"", colour, "\"/>\n");
    out += label(x.to - 18, py, "end", s.name);
  }
  return out + "</svg>\n";
}

std::string write_plot(const OutFolder& out, const std::string& name, const Plot& plot,
                       const LogSink& say) {
  write_extra(out / (name + ".csv"), to_csv(plot), say);
  return write_extra(out / (name + ".svg"), to_svg(plot), say);
}
