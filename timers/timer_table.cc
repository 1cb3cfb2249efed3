#include <pinion/timers/timer_table.h>

namespace pinion {

std::string_view to_string(TimerError error) noexcept {
  switch (error) {
    case TimerError::invalid_id:
      return "invalid_id";
    case TimerError::invalid_deadline:
      return "invalid_deadline";
    case TimerError::capacity:
      return "capacity";
    case TimerError::overflow:
      return "overflow";
    case TimerError::not_found:
      return "not_found";
  }
  return "unknown";
}

}  // namespace pinion
