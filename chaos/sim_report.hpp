// The report of one simulation, a folder of four files: history.txt for a person, history.jsonl
// for a program (an object a line), trace.json for trace viewers (Chrome's trace events), and
// index.html, a page. The last two have a lane for each process.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "data/files/json.hpp"
#include "chaos/history.hpp"

namespace troupe::sim {

// The first task in the text, as "ps0"; "" if it names none.
inline std::string process_in(const std::string& text) {
  const size_t job = text.find("/job:");
  if (job == std::string::npos) return {};
  const size_t task = text.find("/task:", job);
  if (task == std::string::npos) return {};
  const size_t end = text.find_first_not_of("0123456789", task + 6);
  return text.substr(job + 5, task - job - 5) + text.substr(task + 6, end - task - 6);
}

inline constexpr const char* kReportPage = R"html(<!doctype html>
<meta charset="utf-8">
<title>simulation</title>
<style>
body { font: 13px sans-serif; margin: 1em; }
pre { white-space: pre-wrap; }
svg { border: 1px solid #ccc; }
table { border-collapse: collapse; }
td { padding: 0 .6em; vertical-align: top; font-family: monospace; }
tr.fault { background: #fdd; }
tr.state { background: #dfd; }
</style>
<h1 id="title"></h1>
<pre id="outcome"></pre>
<p>Time runs to the right, a lane is a process. Red: a fault. Green: the program. Grey: work.
<input id="filter" placeholder="text of events" size="40"> <span id="shown"></span></p>
<div id="lanes"></div>
<table id="events"></table>
<script>
const report = REPORT;
const by = id => document.getElementById(id);
by("title").textContent = report.title;
by("outcome").textContent = report.outcome;
const dull = e => /^(job |network|trainer )/.test(e.text);
const bad = e => /^(fault|kill|drop|twice|overtake|no fault)/.test(e.text);
const lane_of = e => e.process || "program and network";
const lanes = [...new Set(report.events.map(lane_of))].sort();
const end = Math.max(1, ...report.events.map(e => e.us)), width = 1200, high = 18, left = 150;
let svg = `<svg width="${width + left + 10}" height="${lanes.length * high + 8}">`;
lanes.forEach((lane, i) => svg += `<text x="4" y="${i * high + 15}" font-size="12">${lane}</text>`);
for (const e of report.events) {
  const x = left + e.us / end * width, y = lanes.indexOf(lane_of(e)) * high + 4;
  const colour = bad(e) ? "#c00" : dull(e) ? "#bbb" : "#080", wide = dull(e) ? 1 : 3;
  svg += `<rect x="${x}" y="${y}" width="${wide}" height="${high - 5}" fill="${colour}"/>`;
}
by("lanes").innerHTML = svg + "</svg>";
function list() {
  const words = by("filter").value;
  const some = report.events.filter(e => words ? e.text.includes(words) : !dull(e)).slice(-5000);
  by("shown").textContent = `${some.length} of ${report.events.length} events`;
  by("events").replaceChildren(...some.map(e => {
    const row = document.createElement("tr");
    row.className = bad(e) ? "fault" : dull(e) ? "" : "state";
    for (const text of [e.event, (e.us / 1000).toFixed(3) + " ms", e.text])
      row.appendChild(document.createElement("td")).textContent = text;
    return row;
  }));
}
by("filter").oninput = list;
list();
</script>
)html";

// Writes the files into the folder, which is made if there is none. `history` keeps all lines.
// Throws: std::ios_base::failure, std::filesystem::filesystem_error.
inline void write_report(const std::string& folder, const std::string& title,
                         const std::string& outcome, const History& history) {
  std::filesystem::create_directories(folder);
  const auto open = [&folder](const char* name) {
    std::ofstream out;
    out.exceptions(std::ios::failbit | std::ios::badbit);
    out.open(folder + name);
    return out;
  };
  std::ofstream text = open("/history.txt"), json = open("/history.jsonl");
  std::ofstream trace = open("/trace.json");
  text << title << ": " << outcome << '\n';
  trace << "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  std::map<std::string, size_t> lanes;
  history.print(text);
  std::string events;
  int64_t number = history.events() - static_cast<int64_t>(history.lines().size());
  for (const History::Line& line : history.lines()) {
    const std::string process = process_in(line.text);
    const std::string object = detail::concat("{\"event\":", number++, ",\"us\":", line.us,
                                              ",\"process\":", json_quote(process),
                                              ",\"text\":", json_quote(line.text), "}");
    json << object << '\n';
    const size_t lane = lanes.emplace(process, lanes.size()).first->second;
    trace << detail::concat("{\"ph\":\"i\",\"s\":\"t\",\"pid\":0,\"tid\":", lane,
                            ",\"ts\":", line.us, ",\"name\":", json_quote(line.text), "},\n");
    events += (events.empty() ? "" : ",\n") + object;
  }
  for (const auto& [process, lane] : lanes) {
    const std::string name = process.empty() ? "program and network" : process;
    trace << detail::concat("{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":0,\"tid\":", lane,
                            ",\"args\":{\"name\":", json_quote(name), "}},\n");
  }
  trace << "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":0,\"args\":{\"name\":"
        << json_quote(title) << "}}]}\n";
  std::string page = kReportPage;
  const std::string place = "REPORT;";
  std::string report = detail::concat("{\"title\":", json_quote(title),
                                      ",\"outcome\":", json_quote(outcome), ",\"events\":[");
  report += events + "]};";
  for (size_t at = report.find("</"); at != std::string::npos; at = report.find("</", at + 1))
    report.insert(at + 1, 1, '\\');  // no text ends the script
  page.replace(page.find(place), place.size(), report);
  std::ofstream html = open("/index.html");
  html << page;
  for (std::ofstream* const file : {&text, &json, &trace, &html}) file->close();
}

}  // namespace troupe::sim
