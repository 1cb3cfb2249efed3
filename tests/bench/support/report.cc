#include "support/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iterator>

namespace pinion::bench {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string machine_json(const Machine& machine) {
  return fmt::format(
      "{{\"cpu\": {}, \"cpus\": {}, \"virtualised\": {}, \"memory_gib\": {:.1f}, \"kernel\": {}, "
      "\"compiler\": {}, \"huge_pages\": {}, \"pinned_cpu\": {}, \"load\": {:.2f}}}",
      quoted(machine.cpu), machine.cpus, machine.virtualised, machine.memory_gib,
      quoted(machine.kernel), quoted(machine.compiler), quoted(machine.huge_pages),
      machine.pinned_cpu, machine.load);
}

/// Three significant digits, and no exponent.
std::string figure(double value) {
  if (value >= 100) return fmt::format("{:.0f}", value);
  if (value >= 10) return fmt::format("{:.1f}", value);
  return fmt::format("{:.2f}", value);
}

std::string count(std::size_t n) {
  if (n >= 1'000'000 && n % 1'000'000 == 0) return fmt::format("{}M", n / 1'000'000);
  if (n >= 1'000 && n % 1'000 == 0) return fmt::format("{}k", n / 1'000);
  return fmt::format("{}", n);
}

/// Of which more is better.
bool is_rate(const Row& row) {
  return row.unit == "1/s";
}

bool same_group(const RowKey& a, const RowKey& b) {
  return a.case_name == b.case_name && a.n == b.n && a.metric == b.metric;
}

}  // namespace

Row& Report::row_for(const RowKey& key, const std::string& unit, const std::string& note) {
  for (Row& row : rows_) {
    if (row.key == key) return row;
  }
  rows_.push_back({.key = key, .unit = unit, .samples = {}, .summary = {}, .note = note});
  return rows_.back();
}

void Report::add_sample(const RowKey& key, const std::string& unit, double value,
                        const std::string& note) {
  Row& row = row_for(key, unit, note);
  row.samples.push_back(value);
  row.summary = summarise(row.samples);
}

void Report::set_summary(const RowKey& key, const std::string& unit, const Summary& summary,
                         const std::string& note) {
  row_for(key, unit, note).summary = summary;
}

const Row* Report::find(const RowKey& key) const {
  for (const Row& row : rows_) {
    if (row.key == key) return &row;
  }
  return nullptr;
}

const Row* Report::pinion_row(const Row& row) const {
  RowKey key = row.key;
  key.subject = "pinion";
  return find(key);
}

Summary Report::ratio(const Row& row) const {
  return ratio(&row, pinion_row(row));
}

Summary Report::ratio(const Row* row, const Row* base) {
  if (row == nullptr || base == nullptr || base->summary.median <= 0) return {};
  const auto quotient = [rate = is_rate(*row)](double theirs, double ours) {
    return rate ? ours / theirs : theirs / ours;
  };
  std::vector<double> quotients;
  const std::size_t pairs = std::min(row->samples.size(), base->samples.size());
  for (std::size_t i = 0; i < pairs; ++i) {
    quotients.push_back(quotient(row->samples[i], base->samples[i]));
  }
  if (pairs == 0) quotients.push_back(quotient(row->summary.median, base->summary.median));
  return summarise(std::move(quotients));
}

Verdict Report::verdict(const Row& row) const {
  const Row* ours = pinion_row(row);
  if (ours == nullptr) return Verdict::tie;
  if (!ours->samples.empty() && !row.samples.empty()) return compare(ours->samples, row.samples);
  return compare({&ours->summary.median, 1}, {&row.summary.median, 1});
}

std::vector<const Row*> Report::grouped() const {
  std::vector<const Row*> rows;
  for (const Row& first : rows_) {
    if (std::find(rows.begin(), rows.end(), &first) != rows.end()) continue;
    for (const Row& row : rows_) {
      if (same_group(row.key, first.key)) rows.push_back(&row);
    }
  }
  return rows;
}

std::string Report::table() const {
  std::string out = fmt::format("{} on {}\n", bench_, to_string(machine_));
  auto sink = std::back_inserter(out);
  std::size_t width = 12;
  for (const Row& row : rows_) width = std::max(width, row.key.subject.size());
  const Row* before = nullptr;
  for (const Row* row : grouped()) {
    const RowKey& key = row->key;
    if (before == nullptr || !same_group(key, before->key)) {
      fmt::format_to(sink, "\n{} {} {} [{}]\n", key.case_name, count(key.n), key.metric, row->unit);
      fmt::format_to(sink, "  {:<{}} {:>9} {:>9} {:>9} {:>5} {:>8} {:>8} {:>8}\n", "subject", width,
                     "median", "min", "max", "runs", "ratio", "min", "max");
    }
    before = row;
    const bool tie = key.subject != "pinion" && verdict(*row) == Verdict::tie;
    const Summary& summary = row->summary;
    const Summary quotient = ratio(*row);
    fmt::format_to(sink, "  {:<{}} {:>9} {:>9} {:>9} {:>5} {:>8} {:>8} {:>8}{}{}\n", key.subject,
                   width, figure(summary.median), figure(summary.min), figure(summary.max),
                   summary.runs, figure(quotient.median), figure(quotient.min),
                   figure(quotient.max), tie ? " =  " : "    ", row->note);
  }
  return out;
}

std::string Report::json() const {
  std::string out = fmt::format("{{\"bench\": {}, \"machine\": {},\n \"rows\": [", quoted(bench_),
                                machine_json(machine_));
  auto sink = std::back_inserter(out);
  bool first = true;
  for (const Row* row : grouped()) {
    const Summary quotient = ratio(*row);
    fmt::format_to(
        sink,
        "{}\n  {{\"case\": {}, \"n\": {}, \"subject\": {}, \"metric\": {}, \"unit\": {}, "
        "\"median\": {:.4f}, \"min\": {:.4f}, \"max\": {:.4f}, \"runs\": {}, "
        "\"ratio\": {:.4f}, \"ratio_min\": {:.4f}, \"ratio_max\": {:.4f}}}",
        first ? "" : ",", quoted(row->key.case_name), row->key.n, quoted(row->key.subject),
        quoted(row->key.metric), quoted(row->unit), row->summary.median, row->summary.min,
        row->summary.max, row->summary.runs, quotient.median, quotient.min, quotient.max);
    first = false;
  }
  return out + "\n ]}\n";
}

bool Report::write_json(const std::string& path) const {
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (file == nullptr) return false;
  const std::string text = json();
  const bool whole = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  return std::fclose(file) == 0 && whole;
}

}  // namespace pinion::bench
