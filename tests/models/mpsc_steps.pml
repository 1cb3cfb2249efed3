/* The steps of lib/include/pinion/lib/mpsc_queue.h, one shared read or write each, for the models
 * that use the queue. NODES is the number of elements: they are 1 to NODES, and the stub is 0.
 *
 * What a thread does to what it alone holds (the link of an element before the exchange that hands
 * it over, and of one that pop() is about to return) goes with the shared step beside it: nobody
 * can tell, and the assertions on `held` see that nobody else is there.
 *
 * Ghosts are what the code doesn't have and the model judges by.
 */

#define STUB 0
#define NONE 255

byte next[NODES + 1]; /* MpscNode::next_; an element points to itself while in no queue */
byte last = STUB;     /* last_ */

/* Ghosts. */
bool held[NODES + 1]; /* by the queue: from the first step of push() until pop() gives it out */
byte turn[NODES + 1]; /* of those: which entered first; of the stub, whether it entered again */
byte entered;         /* how many elements have taken the first step of push() */
byte popped;          /* how many pop() has given out */
byte pushing;         /* how many are between the two steps */
bool disturbed;       /* whether one was, at some moment of this pop() */

inline init_queue(i) {
  d_step {
    next[STUB] = NONE;
    held[STUB] = true;
    i = 1;
    do
    :: i <= NODES -> next[i] = i; i++
    :: else -> break
    od;
    i = 0
  }
}

/* MpscQueue::enter(): the first step of push(). `stay` tells one stay of `before` in the queue from
 * the next. */
inline enter(node, before, stay) {
#ifdef FAULT_EXCHANGE_IN_TWO
  before = last;
#endif
  d_step {
    assert(!held[node]);
    next[node] = NONE;
#ifndef FAULT_EXCHANGE_IN_TWO
    before = last;
#endif
    last = node;
    stay = turn[before];
    held[node] = true;
    if
    :: node == STUB -> turn[STUB] = 1 - turn[STUB]
    :: else ->
       assert(next[node] == NONE);
       entered++;
       turn[node] = entered;
       ENTERS;
       pushing++;
       disturbed = true
    fi
  }
}

/* MpscQueue::link(): the second step. */
inline link(node, before, stay) {
  d_step {
    assert(held[before] && turn[before] == stay && next[before] == NONE);
    next[before] = node;
    if
    :: node != STUB -> pushing--
    :: else
    fi;
    before = 0;
    stay = 0
  }
}

/* MpscQueue::append(). */
inline push(node, before, stay) {
  assert(next[node] == node);
#ifdef FAULT_LINK_FIRST
  before = last;
  d_step { stay = turn[before]; next[before] = node };
  d_step { next[node] = NONE; last = node; held[node] = true; entered++; turn[node] = entered }
#else
  enter(node, before, stay);
#ifdef FAULT_LINK_AFTER_FLAG
  must_ring(ring);
#endif
  link(node, before, stay)
#endif
}

/* MpscQueue::empty(), which reads one shared variable. */
#ifdef FAULT_EMPTY_WITHOUT_LAST
#define IS_EMPTY (first == STUB)
#else
#define IS_EMPTY (first == STUB && last == STUB)
#endif
#define EMPTY_IS_RIGHT (IS_EMPTY == (entered == popped))

inline read_next() {
  assert(held[first]);
  second = next[first]
}

/* Its owner may push the element again at once. */
inline give_out() {
  out = first;
  first = second;
  second = 0;
  next[out] = out;
  popped++;
  assert(turn[out] == popped); /* none lost, none twice, in the order of the first steps */
  held[out] = false;
  turn[out] = 0
}

/* MpscQueue::pop(), over the consumer's `first` (first_), `second`, `before`, `stay`. What it gives
 * comes in `out`. */
inline pop() {
  d_step {
    assert(EMPTY_IS_RIGHT); /* whenever the consumer might have asked */
    out = NONE;
    disturbed = (pushing > 0);
    read_next();
    if
    :: first == STUB && second != NONE -> held[STUB] = false; first = second; again = true
    :: else
    fi
  }
  if
  :: again -> d_step { again = false; read_next() }
  :: else
  fi;
  if
  :: first != STUB && second == NONE ->
     if
#ifndef FAULT_STUB_WITHOUT_LOOK
     :: last != first
#endif
     :: else ->
        enter(STUB, before, stay);
        link(STUB, before, stay);
#ifdef FAULT_GIVEN_OUT_UNLINKED
        second = STUB
#else
        d_step { read_next() }
#endif
     fi
  :: else
  fi;
  d_step {
    if
    :: first != STUB && second != NONE -> give_out()
    :: else -> assert(disturbed || entered == popped) /* undisturbed, it finds what there is */
    fi
  }
}
