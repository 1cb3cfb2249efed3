// A program outside the tree, built with exceptions and RTTI as a user's would be: it derives from
// the library's classes, throws through its own frames, asks objects for their type, and runs a
// loop on virtual functions that the library calls.

#include <chrono>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <typeinfo>

#include <pinion/eventloop/loop.h>
#include <pinion/net/kernel_transport.h>
#include <pinion/timers/time_source.h>

namespace {

using namespace std::chrono_literals;

class Counter final : public pinion::Poller {
 public:
  std::size_t poll(pinion::Instant, std::size_t) override {
    ++polls_;
    return 0;
  }
  int polls() const { return polls_; }

 private:
  int polls_ = 0;
};

class Work final : public pinion::Drainable {
 public:
  void on_drain() override { asked_ = true; }
  void on_drain_expired() override {}
  bool drained() const override { return asked_; }

 private:
  bool asked_ = false;
};

class Clock final : public pinion::TimeSource {
 public:
  pinion::Instant now() noexcept override { return real_.now(); }

 private:
  pinion::MonotonicTime real_;
};

struct Alarm : pinion::TimerEntry {
  explicit Alarm(pinion::Loop& owner) : TimerEntry(&on_time), loop(owner) {}
  static void on_time(pinion::TimerEntry& self) noexcept {
    auto& alarm = static_cast<Alarm&>(self);
    alarm.fired = true;
    alarm.loop.begin_drain();
  }

  pinion::Loop& loop;
  bool fired = false;
};

template <class T>
T take(pinion::Result<T> result) {
  if (!result) throw std::runtime_error(pinion::to_string(result.error()));
  return std::move(*result);
}

void require(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

void run() {
  Clock clock;
  const auto loop = take(pinion::Loop::create({}, clock));
  take(loop->adopt_thread().map([] { return true; }));
  const auto transport = take(pinion::KernelTransport::create(*loop));
  pinion::Transport& base = *transport;
  require(&base == transport.get(), "a transport is its base");

  Counter counter;
  Work work;
  loop->add_poller(counter);
  loop->add_drainable(work);
  Alarm alarm(*loop);
  loop->arm_after(alarm, 5ms);
  require(loop->run() == pinion::Ending::drained, "the loop drains");
  require(alarm.fired, "the timer fired");
  require(counter.polls() > 0, "the poller was polled");
  loop->remove_poller(counter);
  loop->remove_drainable(work);

  pinion::Poller& poller = counter;
  require(dynamic_cast<Counter*>(&poller) != nullptr, "dynamic_cast works");
  require(typeid(poller) == typeid(Counter), "typeid works");
}

}  // namespace

int main() {
  try {
    run();
    throw std::out_of_range("thrown and caught");
  } catch (const std::out_of_range&) {
    std::puts("ok");
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
