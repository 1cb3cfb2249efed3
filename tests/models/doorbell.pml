/* Who wakes whom: eventloop/include/pinion/eventloop/mailbox.h, Loop::post() and Loop::request(),
 * Loop::park() and Loop::still_nothing_to_do(). Senders leave messages, one leaves a request to
 * stop, and the loop turns and sleeps as it likes. The queue is the real one, with its push() in
 * two steps.
 *
 * Checked:
 * - no lost wake-up: never does the loop sleep, with something left for it, when nobody is about to
 *   ring and no doorbell is under way (the process `witness`: whatever still comes must not be what
 *   saves it);
 * - one doorbell per sleep at most, none while the loop is awake;
 * - everything is handled in the end.
 *
 * Assumed of the memory order: spin interleaves whole steps, which is sequential consistency. The
 * state, the requests, and the queue's last_ and links are written seq_cst, and read seq_cst where
 * the loop looks once more and where a sender looks at the state; programs whose racing accesses
 * are all seq_cst behave as interleaved. The relaxed load that begins a turn may be late, and in
 * the model it is when it likes. A doorbell, an eventfd or a completion, is the kernel's: what was
 * written before it is seen by who woke from it. Sleeps may end by themselves, as by a timer.
 *
 * verify: SENDERS=2 POSTS=1 REQUESTS=1
 * verify: SENDERS=2 POSTS=2 REQUESTS=0
 * fault: FLAG_BEFORE_PUSH            a sender looks at the flag before it leaves its message
 * fault: LINK_AFTER_FLAG             it looks between the two steps of push()
 * fault: NO_SECOND_LOOK              the loop announces its sleep and sleeps
 * fault: REQUESTS_NOT_LOOKED_AT      it looks for messages alone
 * fault: RUNG_NOT_EXCHANGED          two senders that read "asleep" both ring
 * fault: STAYS_ASLEEP                the loop wakes up and doesn't say so
 */

#define NODES (SENDERS * POSTS)

mtype = { awake, asleep, rung };
mtype state = awake; /* Mailbox::state_ */
bool requests;       /* Loop::requests_ */
bool bell;           /* a completion waits in the ring */

/* Ghosts. */
bool sleeping;       /* the loop is inside the system call */
bool working = true; /* it is between wake_up() and announce_sleep() */
byte under_way;      /* posts and requests that haven't returned */
byte doorbells;      /* since the loop announced its sleep */

#define ENTERS under_way++ /* A post begins with the first step of push(). */
#include "mpsc_steps.pml"

/* Mailbox::must_ring(): a load, then an exchange if it is still as it was. */
inline must_ring(result) {
  if
  :: state == asleep ->
     d_step {
       if
#ifdef FAULT_RUNG_NOT_EXCHANGED
       :: true ->
#else
       :: state == asleep ->
#endif
          state = rung;
          doorbells++;
          assert(doorbells == 1 && !working);
          result = true
       :: else
       fi
     }
  :: else
  fi
}

inline ring_if_told() {
  d_step {
    if
    :: ring -> bell = true; ring = false
    :: else
    fi;
    under_way--
  }
}

/* Loop::post(). */
proctype sender(byte node) {
  byte before, stay;
  bool ring;
  byte end = node + POSTS;
  do
  :: node < end ->
#ifdef FAULT_FLAG_BEFORE_PUSH
     must_ring(ring);
#endif
     push(node, before, stay);
#if !defined(FAULT_FLAG_BEFORE_PUSH) && !defined(FAULT_LINK_AFTER_FLAG)
     must_ring(ring);
#endif
     ring_if_told();
     node++
  :: else -> break
  od
}

/* Loop::request(). */
proctype requester() {
  bool ring;
  d_step { under_way++; requests = true };
  must_ring(ring);
  ring_if_told()
}

/* Loop::handle_messages(): its budget may be used up after any message. */
inline handle_messages() {
  if
  :: IS_EMPTY
  :: else ->
     do
     :: pop();
        if
        :: out == NONE -> break
        :: out != NONE -> arrived = true
        :: out != NONE -> arrived = true; break
        fi
     od;
     out = NONE
  fi
}

/* Loop::park(). */
inline park() {
  d_step { state = asleep; working = false; doorbells = 0 }
#ifndef FAULT_NO_SECOND_LOOK
  handle_messages();
#endif
  if
  :: arrived
#ifndef FAULT_REQUESTS_NOT_LOOKED_AT
  :: !arrived && requests
#endif
  :: !arrived && bell
  :: else ->
     sleeping = true;
     if
     :: bell
     :: true
     fi;
     sleeping = false
  fi;
#ifdef FAULT_STAYS_ASLEEP
  working = true
#else
  d_step { state = awake; working = true }
#endif
}

proctype loop() {
  byte first = STUB, second, out, before, stay;
  bool again, arrived;
  bool stopped = (REQUESTS == 0);
  do
  :: popped == NODES && stopped -> break
  :: else ->
     if
     :: d_step { requests -> requests = false; stopped = true }
     :: true
     fi;
     handle_messages();
     d_step { bell = false; arrived = false };
     if
     :: park(); arrived = false
     :: true
     fi
  od
}

proctype witness() {
end:
  d_step {
    (sleeping && under_way == 0 && !bell && (entered > popped || requests)) -> assert(false)
  }
}

init {
  byte i;
  atomic {
    init_queue(i);
    do
    :: i < SENDERS -> run sender(1 + i * POSTS); i++
    :: else -> break
    od;
    do
    :: REQUESTS > 0 -> run requester(); break
    :: else -> break
    od;
    run loop();
    run witness()
  }
}
