#include "wake_pinion.h"

#include <fmt/core.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <utility>

#include <pinion/eventloop/loop.h>
#include <pinion/timers/time_source.h>

namespace pinion::bench {
namespace {

template <class T>
T or_exit(Result<T> result) {
  if (!result) {
    fmt::print(stderr, "{}\n", to_string(result.error()));
    std::exit(1);
  }
  return std::move(*result);
}

class PinionChannel final : public WakeChannel {
 public:
  PinionChannel(Arrivals& arrivals, int target_cpu, bool spins, bool from_lcore)
      : time_(or_exit(TscTime::create())),
        target_(make_loop(spins ? IdlePolicy::spin : IdlePolicy::park)) {
    for (Note& note : notes_) note.arrivals = &arrivals;
    if (from_lcore) {
      sender_ = make_loop(IdlePolicy::park);
      static_cast<void>(sender_->adopt_thread());
    }
    thread_ = start_on(target_cpu, [this] {
      target_->run();
      counts_ = {.target_calls = target_->ring().stats().enters,
                 .sleeps = target_->stats().parks + target_->stats().failed_parks};
      doorbells_ = target_->stats().doorbells;
      target_.reset();
    });
  }
  ~PinionChannel() override {
    if (thread_.joinable()) end();
  }

  void send(std::size_t messages) override {
    for (std::size_t i = 0; i < messages; ++i) target_->post(notes_[sent_++ % kWindow]);
  }

  /// A doorbell is one write to the eventfd, or one io_uring_enter, which the sender's ring counts.
  /// That of stop() is among the former.
  WakeCounts end() override {
    const std::uint64_t entered = sender_ == nullptr ? 0 : sender_->ring().stats().enters;
    target_->stop();
    thread_.join();
    counts_.sender_calls = sender_ == nullptr ? doorbells_ : entered;
    return counts_;
  }

 private:
  struct Note : Message {
    Note() : Message([](Message& self) { static_cast<Note&>(self).arrivals->note(); }) {}
    Arrivals* arrivals = nullptr;
  };

  std::unique_ptr<Loop> make_loop(IdlePolicy idle) {
    LoopOptions options;
    options.idle = idle;
    return or_exit(Loop::create(options, time_));
  }

  TscTime time_;
  std::array<Note, kWindow> notes_;
  std::uint64_t sent_ = 0;
  std::unique_ptr<Loop> target_;
  std::unique_ptr<Loop> sender_;
  std::thread thread_;
  WakeCounts counts_;
  std::uint64_t doorbells_ = 0;
};

}  // namespace

std::unique_ptr<WakeChannel> make_pinion_channel(Arrivals& arrivals, int target_cpu, bool spins,
                                                 bool from_lcore) {
  return std::make_unique<PinionChannel>(arrivals, target_cpu, spins, from_lcore);
}

}  // namespace pinion::bench
