#pragma once

#include "timer_subjects.h"

/// Each subject with its measurements, instantiated in a file of its own: what the compiler inlines
/// into one must not depend on how many others there are.

namespace pinion::bench {

TimerSubject pinion_subject();
TimerSubject floor_subject();
TimerSubject plain_wheel_subject();
TimerSubject heap4_subject();
TimerSubject heap4_lazy_subject();
TimerSubject rte_timer_subject();
TimerSubject libuv_subject();
TimerSubject asio_subject();
TimerSubject multimap_subject();

}  // namespace pinion::bench
