/* The queue of lib/include/pinion/lib/mpsc_queue.h: producers that push their elements, and push
 * them again as soon as they have come back, and the consumer.
 *
 * Checked:
 * - elements come out in the order in which their push() began: so none is lost, none comes twice,
 *   and those of one producer keep their order;
 * - nobody uses an element's link between pop() and the next push(), nor does the second step of a
 *   push() reach an element in a later stay than the one it meant;
 * - pop() finds an element whenever one is there and no push() is under way;
 * - empty() is true exactly when no push() has begun that pop() has not given out.
 *
 * Assumed of the memory order: spin interleaves whole steps, which is sequential consistency. Every
 * access to last_, and every one to a link by which two threads meet, is seq_cst in the code, and
 * programs whose racing accesses are all seq_cst behave as interleaved. Two stores are relaxed, each
 * to the link of an element that the thread alone holds: before the exchange that hands it over,
 * which releases it, and before pop() returns it. How it gets back to a producer is the program's;
 * it has to be a synchronisation, as it is here.
 *
 * verify: PRODUCERS=2 OWN=2 PUSHES=3
 * verify: PRODUCERS=3 OWN=1 PUSHES=2
 * fault: LINK_FIRST             push() links the element, then makes it the last
 * fault: EXCHANGE_IN_TWO        it reads which is last, then stores the new one
 * fault: STUB_WITHOUT_LOOK      pop() enters the stub although a push() is between its steps
 * fault: GIVEN_OUT_UNLINKED     it gives out an element to which a push() has yet to write
 * fault: EMPTY_WITHOUT_LAST     empty() looks only at what pop() would take
 */

#define NODES (PRODUCERS * OWN)
#define TOTAL (PRODUCERS * PUSHES)

#define ENTERS skip
#include "mpsc_steps.pml"

proctype producer(byte own) {
  byte before, stay, node, count;
  do
  :: count < PUSHES ->
     if
     :: next[own] == own -> node = own
#if OWN > 1
     :: next[own] != own && next[own + 1] == own + 1 -> node = own + 1
#endif
     fi;
     push(node, before, stay);
     count++
  :: else -> break
  od
}

proctype consumer() {
  byte first = STUB, second, out, before, stay;
  bool again;
  do
  :: popped < TOTAL -> pop()
  :: else -> break
  od;
  assert(EMPTY_IS_RIGHT)
}

init {
  byte i;
  atomic {
    init_queue(i);
    do
    :: i < PRODUCERS -> run producer(1 + i * OWN); i++
    :: else -> break
    od;
    run consumer()
  }
}
