#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include <pinion/lib/export.h>
#include <pinion/lib/result.h>
#include <pinion/lib/time.h>
#include <pinion/net/device.h>
#include <pinion/net/packet.h>

/// Writes what passes a device as pcapng, for Wireshark and tcpdump: every packet that was received
/// or taken for sending, with its direction and the nanosecond of its burst.
///
/// Ownership:  the device and the sink are the caller's and outlive the capture. Its end writes
///             what is left, and tells nobody if that fails: call flush() before, to know.
/// Threading:  one lcore.
/// Cost:       a copy of at most snap_length bytes per packet into a buffer that create() takes;
///             the sink is called by flush() alone.
/// Errors:     a packet that the buffer has no room for passes all the same, is counted as dropped,
///             and the file's next statistics block says so. What the sink can't take, flush()
///             reports and keeps for the next one.

namespace pinion {

/// Where a capture goes: a file (CaptureFile), or what a program makes of it.
class CaptureSink {
 public:
  /// Takes the first bytes of `bytes` and answers how many, at least one; or why none.
  [[nodiscard]] virtual Result<std::size_t> write(std::span<const std::byte> bytes) = 0;

 protected:
  ~CaptureSink() = default;
};

/// A file that only its user may read, since packets are private.
class CaptureFile final : public CaptureSink {
 public:
  /// Creates the file, or empties one that is this user's, which others may not read from then on.
  /// A path that leads to a device or a pipe will do, a link to a file not.
  [[nodiscard]] PINION_EXPORT static Result<std::unique_ptr<CaptureFile>> create(std::string path);

  CaptureFile(const CaptureFile&) = delete;
  CaptureFile& operator=(const CaptureFile&) = delete;
  /// Closes it, and tells nobody if that fails.
  PINION_EXPORT ~CaptureFile();

  [[nodiscard]] PINION_EXPORT Result<std::size_t> write(std::span<const std::byte> bytes) override;

  /// Closes it. Nothing may be written afterwards.
  [[nodiscard]] PINION_EXPORT Result<> close();

 private:
  CaptureFile(std::string path, int descriptor) noexcept;

  std::string path_;
  int descriptor_;
};

struct CaptureOptions {
  std::size_t snap_length = 262'144;  ///< Bytes of a packet that are kept; 1 to 262144.
  std::size_t buffer_bytes = std::size_t{4} << 20;  ///< Between two flushes; 64 KiB to 1 GiB.
  std::string interface_name = "pinion";            ///< In the file; up to 255 bytes.

  /// What to add to an Instant for the time since 1970-01-01 UTC.
  std::chrono::nanoseconds wall_clock_offset{0};
};

struct CaptureStats {
  std::uint64_t packets = 0;  ///< That passed.
  std::uint64_t dropped = 0;  ///< Of these, are not in the capture: the buffer was full.
  std::uint64_t written_bytes = 0;
};

class Capture final : public Device {
 public:
  [[nodiscard]] PINION_EXPORT static Result<std::unique_ptr<Capture>> create(
      Device& device, CaptureSink& sink, const CaptureOptions& options = {});
  PINION_EXPORT ~Capture() override;

  /// Writes what is buffered, behind it a statistics block of the time `now`.
  [[nodiscard]] PINION_EXPORT Result<> flush(Instant now);

  /// For packets from here on, after the wall clock was set.
  PINION_EXPORT void set_wall_clock_offset(std::chrono::nanoseconds offset) noexcept;

  [[nodiscard]] PINION_EXPORT const CaptureStats& capture_stats() const noexcept;

  [[nodiscard]] PINION_EXPORT const DeviceInfo& info() const noexcept override;
  [[nodiscard]] PINION_EXPORT std::size_t rx_burst(Instant now,
                                                   std::span<Packet*> into) noexcept override;
  [[nodiscard]] PINION_EXPORT std::size_t tx_burst(
      Instant now, std::span<Packet* const> packets) noexcept override;
  [[nodiscard]] PINION_EXPORT Instant next_event() const noexcept override;
  [[nodiscard]] PINION_EXPORT int wait_descriptor() const noexcept override;
  [[nodiscard]] PINION_EXPORT bool announces_arrivals() const noexcept override;
  PINION_EXPORT void on_wait_error() noexcept override;
  [[nodiscard]] PINION_EXPORT DeviceStats stats() const noexcept override;

 private:
  struct Parts;

  explicit Capture(std::unique_ptr<Parts> parts) noexcept;

  std::unique_ptr<Parts> parts_;
};

}  // namespace pinion
