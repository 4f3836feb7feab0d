// Package law is where the target law was chosen: it tries laws on a model of a site
// and says which meet the bars. Nothing of it runs in the service; the law that does
// is admission.Decide with law target, and it is that very function that is tried.
//
//	a law ── rate ──▶ the line ── people ──▶ lag 5…60 s ──▶ a pool, so many
//	  ▲               (never more than       (fixed, or     seconds each
//	  │                wait, or the cap)      spread)          │
//	  └────────────────── usage, with noise ◀───────────────────┘
//
// # The bars
//
// For a demand above the capacity, and the target at 75 %:
//
//   - from five minutes after the start and after each sudden change, 90 % of the
//     samples are within 10 points of the target;
//   - the usage is never above 95 % for more than 10 s in a row, the lag and two
//     minutes after the start and each sudden change apart: what was let in before a
//     change comes whatever a law does, and has to be served;
//   - the rate takes at least 60 s from a tenth of its highest to nine tenths of it;
//     and back, unless a sudden change made it fall;
//   - from the fifth minute on at least 95 % as many are served as by the best
//     constant rate that, known in advance, keeps the usage at the target or below.
//
// The grid: lags of 5 to 60 s, fixed or varying from person to person; demand of 0.5
// to 20 times what the site can serve; 0 to 60 % no-shows; no noise and a deviation
// of 5 points; sites that serve 3, 50 and 400 a second; a site that stays as it is,
// one that loses half of its capacity and gets it back, and a rush after a quiet
// time. The event's own rate is 20 times what the site can serve: nobody had to know.
//
// # The laws
//
//   - target, chosen: bounds what is on its way by the rates of the last minute, and
//     acts only where the least and the most that may come agree (rate_target.go).
//   - pi: proportional and integral, in velocity form, on the logarithm of the rate.
//     Hunts with the longest lags, or is too slow for the shortest.
//   - aimd: adds, and cuts by a part. Hunts: with a lag the cut always comes too late.
//   - smith: a Smith predictor with a lag that it takes for known; good where it is
//     right, and hunts where it is not.
//   - little: fills up to the target by Little's law, from what one session takes of
//     the pool. It was told which of those let in would come, which nobody knows.
//   - steps: the table of system A, which law steps has. It keeps a site from falling
//     over; it was never made to hold a figure.
//
// The gains of the losers are those that did best on a part of the grid, of 20 (pi,
// smith) and 48 (aimd). The results are in comparison.md, and one trial in
// comparison.svg; `make laws` prints and draws both anew.
//
// # Promises, each with a test that names it
//
//  1. The chosen law meets every bar in every trial.
//  2. No other does.
//  3. A trial gives the same figures each time.
//  4. The published table agrees with 1 and 2.
package law
