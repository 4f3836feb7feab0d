// Package rank counts who stands before whom in a line whose places are numbers.
//
// Sequences are given densely: base+1, base+2, and so on. A place is therefore
// known without asking anyone: it is the sequence less the base, less those
// before it that are gone. So a Line keeps no one who waits, only who is gone,
// and needs to hear of departures, never of joins.
//
//	 early (a set of those present)      window (a set of those gone)
//	┌──────────────────────────────┐┌───────────────────────────────────▶
//	 ...  412  ...  977 ... 981      start      ✗  ✗     ✗
//	      └ put back after a loss    └ everyone from here on waits unless gone
//
// # Words
//
//   - window: the sequences from start on. Each of them waits unless it is marked
//     as gone, also those that nobody was given yet.
//   - early: the few sequences before the window that wait all the same: places of
//     an earlier epoch, or of this one, that were put back from a receipt.
//   - start: where the window begins. It moves up as the front of the window goes,
//     so that a line's memory follows its length and not its history.
//   - block: a set of up to 4096 neighbouring sequences, the unit of both parts. It
//     is a short sorted list, a bitmap, or a mere "all of them".
//
// # Moves
//
//   - Depart marks a sequence as gone, Return as waiting. Both are absolute and may
//     be repeated: the last word on a sequence counts.
//   - Position answers from a running sum over the blocks (a Fenwick tree) and at
//     most one block: O(log n).
//
// # Promises, each with a test that names it
//
//  1. Position is one more than the number of smaller sequences that wait, for
//     every sequence and after every order of moves; false for whoever is gone.
//  2. A move repeated changes nothing.
//  3. Memory: a bit for each sequence between the first and the last of the window
//     at most, and two bytes for each lone early one; nothing for the past.
//  4. A sequence out of bounds is an error and changes nothing; nothing that comes
//     from outside makes a Line allocate without bound.
package rank
