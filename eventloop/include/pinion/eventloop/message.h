#pragma once

#include <pinion/lib/mpsc_queue.h>

/// A message from any thread to a loop.
///
/// Ownership:  the sender owns the message and keeps it alive until its handler is called. The
///             handler may post it again, hand it back or destroy it.
/// Threading:  posted from any thread (Loop::post); the handler runs on the loop's thread.
/// Cost:       a message carries its own link, so that posting allocates nothing and never finds a
///             full queue. A post makes no system call while the loop is awake.
/// Errors:     posting a message again before its handler was called is a bug; so is letting it
///             die. An exception that leaves a handler ends the process with a message.

namespace pinion {

class Message : public MpscNode {
 public:
  /// Users derive from Message and static_cast in the handler.
  using Handler = void (*)(Message&);

  explicit Message(Handler handler) noexcept : handler_(handler) {}

 private:
  friend class Loop;
  Handler handler_;
};

}  // namespace pinion
