/* A shared timer: timers/shared_timers.cc, shared_timer_shard.cc, shared_timer_fire.cc and
 * merge_queue.cc. Threads schedule and cancel one timer, then its handle ends; two shards turn and
 * sleep as they like, the clock goes on when it likes, and one more timer (`noise`) is put into the
 * first shard's inbox by a cancel, which wakes nobody. The first shard drains and comes back; the
 * second one never drains, so that a timer goes from shard to shard once, and two drains at a time
 * are not tried. A poll takes one timer, so that none is in it twice.
 *
 * Checked:
 * - each schedule ends once: it fires, is cancelled or is replaced; never early;
 * - none is lost: never is a schedule due while every shard that runs sleeps, and nobody is about
 *   to wake one (the process `witness`);
 * - the timer is in one inbox at most, only its owner touches its wheel entry, and its block is
 *   given back once, unlinked, with nobody at it;
 * - no waker is called after a drain has returned.
 *
 * Assumed of the memory order: spin interleaves whole steps, which is sequential consistency. The
 * word, armed_for, attention, owner, closed_, sleep_, waking_ and announced_ are written and read
 * seq_cst where they race; the inbox's order is mpsc_queue.h's promise: an element can be taken once
 * it and all before it are linked, and a consumer sees that it isn't empty as soon as one has
 * entered. A loop of load and compare-exchange is one step where nothing but the last load matters.
 *
 * verify: THREADS=1 OPERATIONS=0 SECOND=0 DRAINS=1 NOISE=0 RELEASE=1 BACK=1
 * verify: THREADS=1 OPERATIONS=2 SECOND=0 DRAINS=0 NOISE=0 RELEASE=1 BACK=1
 * verify: THREADS=2 OPERATIONS=2 SECOND=1 DRAINS=0 NOISE=0 RELEASE=0 BACK=1
 * verify: THREADS=2 OPERATIONS=1 SECOND=1 DRAINS=0 NOISE=1 RELEASE=0 BACK=1
 * verify: THREADS=1 OPERATIONS=1 SECOND=0 DRAINS=1 NOISE=0 RELEASE=0 BACK=1
 * campaign: THREADS=1 OPERATIONS=1 SECOND=0 DRAINS=1 NOISE=1 RELEASE=0 BACK=0
 * fault: WORD_BEFORE_ARMED_FOR in 3   the shard looks at the word, then says that nothing is armed
 * fault: ARMED_FOR_BEFORE_WORD in 2   a thread looks what is armed before it changes the word
 * fault: TAKEN_AFTER_WORD in 2        the shard looks at the word, then says that it has taken it
 * fault: URGENCY_FORGOTTEN in 3       who puts the timer into the inbox ignores who came meanwhile
 * fault: SLEEPS_THROUGH_PUSH in 4     a push that is under way doesn't refuse the sleep
 * fault: CANCEL_QUEUES_FOR_GOOD in 3  who finds the timer queued doesn't wake
 * fault: CLOSED_NOT_LOOKED_AT in 5    nobody is told of what is put into a closed shard's inbox
 * fault: ANNOUNCED_CLEARED_LATE in 5  the merge queue forgets what came while it was looking
 * fault: FIRES_WITHOUT_EXCHANGE in 2  fires what it has read, whatever became of it
 * fault: ANNOUNCES_IN_SILENCE in 6    what is put into a closed shard without haste wakes nobody
 * fault: DRAIN_PUSHES_ANYWAY in 5     a drain doesn't look whether the timer is queued
 * fault: DRAIN_DOES_NOT_WAIT in 5     for those that are waking
 * fault: RELEASED_BESIDE in 2         the end of a handle doesn't take the bit that it is queued with
 */

#define NEVER 3
#define NOBODY 2
#define TIMER 0
#define OTHER 1

/* The state, the deadline and the generation of the word. */
#define CANCELLED 0
#define SCHEDULED 1
#define FIRED 2
#define MIGRATING 3
#define STATE(w) (w & 3)
#define DUE(w) ((w >> 2) & 3)
#define WITH(w, state) ((w & 252) | state)
#define PENDING(w) (STATE(w) == SCHEDULED || STATE(w) == MIGRATING)

/* The bits of attention. */
#define QUEUED 1
#define URGENT 2
#define RELEASED 4

mtype = { awake, asleep, rung };

byte word;
byte armed_for = NEVER;
byte attention;
byte owner;
bool announced;
bool locked; /* MergeQueue::mutex_ */
mtype sleep[2] = awake;
bool closed[2];
byte waking[2];
chan inbox[2] = [2] of { byte };
bool linked[2]; /* by element */

byte entry; /* what the wheel entry is armed for; 0: it isn't */
byte entry_on = NOBODY;
byte clock;

/* Ghosts. */
bool open;           /* a schedule that hasn't ended */
byte wanted;         /* its deadline */
bool freed;
bool sleeping[2];    /* inside the system call */
bool bell[2];        /* which ends it */
bool out[2];         /* drained, and not at it any more */
bool waker_gone[2];
byte under_way;      /* calls of threads that haven't returned */
byte threads_left = THREADS;

inline lock() { atomic { !locked -> locked = true } }
inline unlock() { locked = false }

/* MpscQueue::push(), in its two steps. */
inline push(on, element) {
  d_step {
    assert(!linked[element] && nfull(inbox[on]));
    assert(element == OTHER || (!freed && (attention & QUEUED)));
    inbox[on] ! element
  };
  linked[element] = true
}

/* MpscQueue::pop(). */
inline pop_now(on, element) {
  element = NEVER;
  if
  :: nempty(inbox[on]) -> inbox[on] ? <element>
  :: empty(inbox[on])
  fi;
  if
  :: element != NEVER && linked[element] -> inbox[on] ? element; linked[element] = false
  :: else -> element = NEVER
  fi
}

/* Without a drain there is one step of it that anybody sees. */
inline call_waker(who) {
#if DRAINS > 0
  waking[who]++;
  if
  :: !closed[who] -> d_step { assert(!waker_gone[who]); bell[who] = true }
  :: else
  fi;
  waking[who]--
#else
  bell[who] = true
#endif
}

/* SharedTimerShard::wake(). */
inline wake(who) {
  if
  :: d_step { sleep[who] == asleep -> sleep[who] = rung };
     call_waker(who)
  :: d_step { sleep[who] != asleep -> skip }
  fi
}

/* SharedTimerShard::notice() and MergeQueue::announce(). */
inline notice(who, urgent) {
  if
#ifndef FAULT_CLOSED_NOT_LOOKED_AT
  :: closed[who] ->
     announced = true;
     if
#ifdef FAULT_ANNOUNCES_IN_SILENCE
     :: !urgent
     :: urgent && !closed[0] -> wake(0)
     :: urgent && closed[0] ->
#else
     :: !closed[0] -> wake(0)
     :: else ->
#endif
        if
        :: !closed[1] -> wake(1)
        :: else
        fi
     fi
#endif
  :: else ->
     if
     :: urgent -> wake(who)
     :: else
     fi
  fi
}

/* SharedTimers::attend(). */
inline attend(bits) {
  d_step { before = attention; attention = attention | bits };
  who = owner;
  if
  :: !(before & QUEUED) ->
     push(who, TIMER);
#ifdef FAULT_URGENCY_FORGOTTEN
     before = bits;
#else
     before = bits | attention;
#endif
     notice(who, (before & URGENT))
#ifndef FAULT_CANCEL_QUEUES_FOR_GOOD
  :: (before & QUEUED) && (bits & URGENT) -> notice(who, true)
#endif
  :: else
  fi;
  d_step { before = 0; who = 0 }
}

/* SharedTimers::schedule(). */
inline schedule(due) {
#ifdef FAULT_ARMED_FOR_BEFORE_WORD
  armed = armed_for;
#endif
  d_step {
    assert(open == PENDING(word));
    word = ((word & 240) + 16) | (due << 2) | SCHEDULED;
    open = true;
    wanted = due
  };
#ifndef FAULT_ARMED_FOR_BEFORE_WORD
  armed = armed_for;
#endif
  if
  :: due < armed -> attend(QUEUED | URGENT)
  :: else
  fi;
  armed = 0
}

/* SharedTimers::cancel(). */
inline cancel() {
  if
  :: d_step { PENDING(word) -> assert(open); open = false; word = WITH(word, CANCELLED) };
     if
     :: armed_for != NEVER -> attend(QUEUED)
     :: else
     fi
  :: d_step { !PENDING(word) -> skip }
  fi
}

/* SharedTimers::release(). */
inline release() {
  cancel();
#ifdef FAULT_RELEASED_BESIDE
  attention = attention | RELEASED;
#endif
  d_step { before = attention; attention = attention | QUEUED | RELEASED };
  if
  :: !(before & QUEUED) -> who = owner; push(who, TIMER); notice(who, false)
  :: else
  fi
}

proctype thread(byte left) {
  byte before, who, armed;
  do
  :: left > 0 ->
     under_way++;
     if
     :: schedule(1)
     :: schedule(2)
     :: cancel()
     fi;
     d_step { left--; under_way-- }
  :: else -> break
  od;
#if RELEASE > 0
  atomic { threads_left--; left = (threads_left == 0) };
  if
  :: left -> release()
  :: else
  fi
#endif
}

/* A cancel of another timer, which is linked on the first shard. */
proctype noise() {
  under_way++;
  push(0, OTHER);
  notice(0, false);
  under_way--
}

/* The entry is its owner's alone, so that touching it is no step of its own. */
inline touch(due) {
  assert(entry_on == NOBODY || entry_on == self);
  assert(owner == self && !freed);
  entry = due;
  entry_on = (due == 0 -> NOBODY : self)
}

inline give_back() {
  assert(!freed && entry_on == NOBODY && threads_left == 0 && !open && !linked[TIMER]);
  freed = true
}

/* SharedTimerShard::settle(). */
inline settle() {
#ifdef FAULT_WORD_BEFORE_ARMED_FOR
  w = word;
  armed_for = NEVER;
#else
  armed_for = NEVER;
  w = word;
#endif
  do
  :: STATE(w) == MIGRATING ->
     d_step {
       if
       :: word == w -> word = WITH(w, SCHEDULED); w = word
       :: else -> w = word
       fi
     }
  :: STATE(w) == SCHEDULED && DUE(w) > now ->
     d_step { touch(DUE(w)); armed_for = DUE(w) };
     break
  :: STATE(w) == SCHEDULED && DUE(w) <= now ->
     d_step {
       touch(0);
       if
#ifdef FAULT_FIRES_WITHOUT_EXCHANGE
       :: true ->
#else
       :: word == w ->
#endif
          assert(open && wanted <= clock);
          open = false;
          word = WITH(w, FIRED);
          w = word
       :: else -> w = word
       fi
     };
     if
     :: STATE(w) == FIRED -> break
     :: else
     fi
  :: !PENDING(w) -> d_step { touch(0) }; break
  od;
  w = 0
}

/* SharedTimerShard::take_in(). */
inline take_in() {
#ifdef FAULT_TAKEN_AFTER_WORD
  if
  :: d_step { (attention & RELEASED) -> attention = RELEASED; touch(0); give_back() }
  :: else -> settle(); d_step { attention = attention & RELEASED }
  fi
#else
  d_step { before = attention; attention = attention & RELEASED };
  if
#ifdef FAULT_RELEASED_BESIDE
  :: attention & RELEASED ->
#else
  :: before & RELEASED ->
#endif
     d_step { touch(0); armed_for = NEVER; give_back() }
  :: else -> settle()
  fi
#endif
}

/* MergeQueue::hand_over(), of the one shard that may be closed while the other runs. */
inline hand_over() {
  if
  :: closed[0] == closed[1]
  :: else ->
#ifndef FAULT_ANNOUNCED_CLEARED_LATE
     announced = false;
#endif
     d_step { from = (closed[0] -> 0 : 1) };
     do
     :: d_step { pop_now(from, element) };
        if
        :: element == NEVER -> break
        :: element == OTHER
        :: element == TIMER ->
           if
           :: d_step { (attention & RELEASED) -> give_back() }
           :: else ->
              owner = 1 - from;
              push(1 - from, TIMER);
              wake(1 - from)
           fi
        fi
     od;
#ifdef FAULT_ANNOUNCED_CLEARED_LATE
     announced = false;
#endif
     atomic { from = 0; element = 0 }
  fi
}

/* SharedTimerShard::poll(), with a budget of one. An inbox that is seen to be not empty may be taken
 * from later, but then it is as if it had been looked at later. */
inline poll() {
  if
  :: d_step { announced -> now = clock };
     if
     :: d_step { !locked -> locked = true }; hand_over(); unlock()
     :: d_step { locked -> did = true }
     fi
  :: d_step { !announced -> now = clock }
  fi;
  if
  :: d_step { nempty(inbox[self]) -> take_one() };
     if
     :: element == TIMER -> take_in()
     :: element != TIMER
     fi;
     d_step { element = 0; before = 0 }
  :: empty(inbox[self])
  fi
}

inline take_one() {
  pop_now(self, element);
#ifndef FAULT_SLEEPS_THROUGH_PUSH
  did = true
#else
  did = did || element != NEVER
#endif
}

/* WheelCore::advance(). */
inline advance() {
  now = clock;
  if
  :: d_step { entry_on == self && entry <= now -> touch(0) }; settle()
  :: else
  fi
}

/* SharedTimerPoller in Loop::park(). */
inline park() {
  sleep[self] = asleep;
  poll();
  if
  :: d_step { !did && !(entry_on == self && entry <= now) -> sleeping[self] = true };
end_asleep:
     if
     :: d_step { bell[self] -> sleeping[self] = false; bell[self] = false }
     :: d_step { entry_on == self && entry <= clock -> sleeping[self] = false; bell[self] = false }
     fi
  :: else
  fi;
  d_step { sleep[self] = awake; did = false; now = 0 }
}

/* SharedTimerShard::leave(). */
inline leave() {
  d_step { touch(0); armed_for = NEVER };
  if
  :: d_step { STATE(word) == SCHEDULED -> word = WITH(word, MIGRATING) };
     d_step { before = attention; attention = attention | QUEUED | URGENT };
     if
#ifdef FAULT_DRAIN_PUSHES_ANYWAY
     :: true -> push(self, TIMER)
#else
     :: !(before & QUEUED) -> push(self, TIMER)
     :: else
#endif
     fi;
     before = 0
  :: d_step { STATE(word) != SCHEDULED -> skip }
  fi
}

/* SharedTimerShard::drain(). */
inline drain() {
  lock();
  closed[self] = true;
  if
  :: owner == self && !freed -> leave()
  :: else
  fi;
  hand_over();
  unlock();
#ifndef FAULT_DRAIN_DOES_NOT_WAIT
  waking[self] == 0;
#endif
  d_step { waker_gone[self] = true; bell[self] = false; out[self] = true }
}

/* SharedTimerShard::attach(). */
inline attach() {
  lock();
  d_step { out[self] = false; waker_gone[self] = false; sleep[self] = awake };
  closed[self] = false;
  hand_over();
  unlock()
}

proctype shard(byte self) {
  byte before, element, from, now, w, drains = DRAINS;
  bool did;
end:
  do
  :: announced || nempty(inbox[self]) -> poll(); d_step { did = false; now = 0 }
  :: entry_on == self && entry <= clock -> advance(); now = 0
  :: park()
#if DRAINS > 0
  :: self == 0 && drains > 0 ->
     drains--;
     drain();
#if BACK > 0
     attach();
     now = 0
#else
     break
#endif
#endif
  od
}

/* The deadline 1 comes, 2 is far. */
proctype time_goes_on() {
  clock = 1
}

#define QUIET(s) ((sleeping[s] && !bell[s] && !(entry_on == s && entry <= clock)) || out[s])

proctype witness() {
end:
  d_step {
    (QUIET(0) && QUIET(1) && !(out[0] && out[1]) && under_way == 0 && open && wanted <= clock) ->
    assert(false)
  }
}

init {
  byte i;
  atomic {
    do
    :: i < THREADS -> run thread((i == 0 -> OPERATIONS : SECOND)); i++
    :: else -> break
    od;
    run shard(0);
    do
    :: DRAINS > 0 -> run shard(1); break
    :: else -> closed[1] = true; out[1] = true; break
    od;
    do
    :: NOISE > 0 -> run noise(); break
    :: else -> break
    od;
    run time_goes_on();
    run witness()
  }
}
