/* The end of a loop that others call: eventloop/include/pinion/eventloop/call_gate.h,
 * CallBase::launch() and Loop::end_calls(). Callers enter the gate, post and leave it; the loop
 * handles what comes, closes the gate, posts itself a marker and handles what stands before that.
 * Then it runs again, or has ended for good. The mailbox is a channel, since mpsc_queue.pml has
 * shown that the queue is one: in order, nothing lost.
 *
 * Checked:
 * - a call that got in is answered before the loop has ended: nothing is left in the mailbox then;
 * - a call that comes when the loop has ended is turned away;
 * - every caller hears, and the loop's end doesn't wait for one who waits for it: nobody stands for
 *   ever.
 *
 * Assumed of the memory order: spin interleaves whole steps, which is sequential consistency. All
 * that is shared is the gate's word, one variable, and the mailbox. The loop sees the word without
 * callers by an acquire load, which sees what they wrote before they left by a release.
 *
 * verify: CALLERS=3 CALLS=1 RUNS=1
 * verify: CALLERS=3 CALLS=2 RUNS=2
 * fault: CLOSE_WITHOUT_WAIT      close() doesn't wait for who is inside
 * fault: ENTER_IN_TWO            enter() looks, then counts itself in
 * fault: MARKER_BEFORE_CLOSE     the marker is posted while callers still come in
 */

#define CLOSED 1
#define ONE 2
#define MARKER 255

byte word; /* CallGate::word_ */
chan mailbox = [CALLERS * CALLS + 1] of { byte };

/* Ghosts. */
bool ended;             /* the loop won't handle anything more */
bool waits[CALLERS];    /* for the answer */

proctype caller(byte me) {
  byte count;
  bool closed, was_ended;
  do
  :: count < CALLS ->
#ifdef FAULT_ENTER_IN_TWO
     closed = word % ONE;
     if
     :: !closed -> word = word + ONE
     :: else
     fi;
#else
     d_step { was_ended = ended; closed = word % ONE; word = word + ONE };
     if
     :: closed -> word = word - ONE
     :: else -> assert(!was_ended)
     fi;
#endif
     if
     :: closed
     :: else ->
        waits[me] = true;
        mailbox!me;
        word = word - ONE;
        !waits[me]
     fi;
     count++
  :: else -> break
  od
}

inline handle(message) {
  mailbox?message;
  if
  :: message != MARKER -> waits[message] = false
  :: else
  fi
}

inline close() {
  d_step { word = word - word % ONE + CLOSED };
#ifndef FAULT_CLOSE_WITHOUT_WAIT
  word < ONE
#endif
}

proctype loop() {
  byte message, runs;
  do
  :: runs < RUNS ->
     runs++;
     atomic { ended = false; word = word - word % ONE };
     do
     :: handle(message)
     :: break
     od;
#ifdef FAULT_MARKER_BEFORE_CLOSE
     mailbox!MARKER;
     close();
#else
     close();
     mailbox!MARKER;
#endif
     do
     :: message == MARKER -> message = 0; break
     :: else -> handle(message)
     od;
     atomic { ended = true; assert(empty(mailbox)) }
  :: else -> break
  od
}

init {
  byte i;
  atomic {
    do
    :: i < CALLERS -> run caller(i); i++
    :: else -> break
    od;
    run loop()
  }
}
