#include "dpdk_log.h"

#include <cstdio>
#include <mutex>
#include <string_view>
#include <utility>

#include <rte_log.h>

#include <pinion/lib/log.h>

namespace pinion::detail {
namespace {

constexpr std::size_t kMostWords = 512;  // Of an error that a person reads.

struct DpdkLog {
  std::mutex mutex;
  std::FILE* stream = nullptr;
  bool verbose = false;
  DpdkWords* words = nullptr;  // Who keeps errors now.
  std::string begun;           // A line whose end is still to come.
};

DpdkLog& dpdk_log() noexcept {
  static DpdkLog log;
  return log;
}

void log_remark(const DpdkLog& log, std::string_view line) {
  if (log.verbose) {
    log_info("{}", line);
  } else {
    log_debug("{}", line);
  }
}

void take_line(DpdkLog& log, std::string_view line, bool error) {
  if (line.empty()) return;
  if (error && log.words != nullptr && log.words->keep(line)) return;
  if (error) {
    log_warn("{}", line);
  } else {
    log_remark(log, line);
  }
}

/// The stream's way to write.
ssize_t take_text(void*, const char* text, std::size_t size) {
  DpdkLog& log = dpdk_log();
  const std::scoped_lock lock(log.mutex);
  // 0 is EMERG; unsigned levels, as rte_log.h has them.
  const bool error = rte_log_cur_msg_loglevel() <= static_cast<int>(RTE_LOG_ERR);
  std::string_view rest(text, size);
  for (std::size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
    log.begun += rest.substr(0, end);
    take_line(log, log.begun, error);
    log.begun.clear();
    rest.remove_prefix(end + 1);
  }
  log.begun += rest;
  return static_cast<ssize_t>(size);
}

}  // namespace

bool open_dpdk_log(bool verbose) noexcept {
  DpdkLog& log = dpdk_log();
  log.verbose = verbose;
  log.stream = fopencookie(
      nullptr, "w", {.read = nullptr, .write = &take_text, .seek = nullptr, .close = nullptr});
  if (log.stream == nullptr) return false;
  // Each message is known by its level only while it is written.
  std::setvbuf(log.stream, nullptr, _IONBF, 0);
  rte_openlog_stream(log.stream);
  return true;
}

void close_dpdk_log() noexcept {
  DpdkLog& log = dpdk_log();
  rte_openlog_stream(nullptr);
  if (log.stream != nullptr) std::fclose(log.stream);
  log.stream = nullptr;
}

DpdkWords::DpdkWords() {
  DpdkLog& log = dpdk_log();
  const std::scoped_lock lock(log.mutex);
  outer_ = std::exchange(log.words, this);
}

DpdkWords::~DpdkWords() {
  DpdkLog& log = dpdk_log();
  const std::scoped_lock lock(log.mutex);
  log.words = outer_;
  if (told_ < kept_.size()) log_warn("{}", std::string_view(kept_).substr(told_));
}

bool DpdkWords::keep(std::string_view line) {
  if (kept_.size() + line.size() > kMostWords) return false;
  const bool goes_on = told_ < kept_.size();
  if (!kept_.empty()) kept_ += "; ";
  if (!goes_on) told_ = kept_.size();
  kept_ += line;
  return true;
}

void DpdkWords::forgive() const {
  DpdkLog& log = dpdk_log();
  const std::scoped_lock lock(log.mutex);
  if (told_ < kept_.size()) log_remark(log, std::string_view(kept_).substr(told_));
  told_ = kept_.size();
}

std::string DpdkWords::text() const {
  DpdkLog& log = dpdk_log();
  const std::scoped_lock lock(log.mutex);
  told_ = kept_.size();
  return kept_;
}

std::string DpdkWords::or_else(const std::string& fallback) const {
  const std::string said = text();
  return said.empty() ? fallback : said;
}

}  // namespace pinion::detail
