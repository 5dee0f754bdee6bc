// Plot: lines and points over two axes, as SVG for people and as CSV for tools.
//
// Owner: the program. Thread: its main one.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "apps/program/out_folder.hpp"

struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points = {};
  bool dots = false;  // points alone, without a line
};

struct Plot {
  std::string title, x_label, y_label;
  std::vector<Series> series = {};

  // Adds to the series of that name, which it makes at first. Points are in the order of x, and a
  // later one replaces that of the same x: steps are done again after a loss.
  void add(const std::string& name, double x, double y);
  // Adds the points of a file that to_csv() has made: those of the steps before a resume. A file
  // that is not there, or of another form, adds nothing.
  void add_csv(const std::filesystem::path& file);
};

std::string to_csv(const Plot& plot);  // lines "series,x,y" under a header
std::string to_svg(const Plot& plot);  // points that are not finite are left out

// Writes NAME.svg and NAME.csv; returns the path of the picture, for people.
std::string write_plot(const OutFolder& out, const std::string& name, const Plot& plot,
                       const troupe::LogSink& say);
