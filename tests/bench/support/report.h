#pragma once

#include <string>
#include <vector>

#include "support/machine.h"
#include "support/summary.h"

/// The rows of a bench: gathered sample by sample, shown as a table, written as JSON.
///
/// A row is keyed by case, n, metric and subject. `ratio` is the subject's figure over pinion's in
/// the same case, n, metric and round; of a rate, whose unit is "1/s", pinion's over the subject's.
/// So above 1, pinion is better.

namespace pinion::bench {

struct RowKey {
  std::string case_name;
  std::size_t n = 0;
  std::string metric;
  std::string subject;
  bool operator==(const RowKey&) const = default;
};

struct Row {
  RowKey key;
  std::string unit;
  std::vector<double> samples;  ///< one per run, in the order of the runs
  Summary summary;
  std::string note;  ///< what was limited, if anything
};

class Report {
 public:
  Report(std::string bench, Machine machine)
      : bench_(std::move(bench)), machine_(std::move(machine)) {}

  /// One run's figure.
  void add_sample(const RowKey& key, const std::string& unit, double value,
                  const std::string& note = {});

  /// A figure that is made from several runs together: its summary is given, not computed.
  void set_summary(const RowKey& key, const std::string& unit, const Summary& summary,
                   const std::string& note = {});

  /// nullptr when nothing was measured under that key.
  const Row* find(const RowKey& key) const;

  /// This row's figures over pinion's of the same rounds, which ran next to each other: median,
  /// least and greatest of the quotients. All zero when pinion was not measured.
  Summary ratio(const Row& row) const;

  /// The same over another subject's; all zero when one of them was not measured.
  static Summary ratio(const Row* row, const Row* base);

  /// What the tie rule says of this row against pinion's.
  Verdict verdict(const Row& row) const;

  std::string table() const;
  std::string json() const;

  /// False, with errno set, when the file can't be written.
  bool write_json(const std::string& path) const;

 private:
  Row& row_for(const RowKey& key, const std::string& unit, const std::string& note);
  const Row* pinion_row(const Row& row) const;
  /// The rows of one case, n and metric together, in the order in which each first came.
  std::vector<const Row*> grouped() const;

  std::string bench_;
  Machine machine_;
  std::vector<Row> rows_;
};

}  // namespace pinion::bench
