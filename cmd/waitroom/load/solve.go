package load

import (
	"context"
	"net/http"
	"runtime"
	"time"

	"github.com/waitroom-dev/waitroom/web/challenge"
)

// puzzleTries is how many puzzles a person works out for one place: a service may have
// a solution come too late, or to another of its names.
const puzzleTries = 3

// solvers is how many puzzles a worker works out at a time: all workers together have
// the machine's cores busy with them, and no more.
func solvers(workers int) int { return max(1, runtime.GOMAXPROCS(0)/workers) }

// challenged makes a call that may be refused for want of a challenge, and brings it
// with a solution then; worked is the time that this took, which is the tool's and
// not the service's. What cannot be solved here is an answer like any other.
func (u *user) challenged(ctx context.Context, k call) (a answer, worked time.Duration, err error) {
	for try := 0; ; try++ {
		a, err = u.ask(ctx, k)
		if err != nil || !wantsChallenge(a) || try == puzzleTries {
			return a, worked, err
		}
		offer, err := u.ask(ctx, call{method: http.MethodGet, path: u.path("/challenge")})
		if err != nil {
			return answer{}, worked, err
		}
		if offer.status != http.StatusOK {
			return a, worked, nil
		}
		began := time.Now()
		var took time.Duration
		var unsolved error
		if err := u.solvers.do(ctx, func() {
			at := time.Now()
			k.solution, unsolved = challenge.Solve(ctx, offer.body)
			took = time.Since(at)
		}); err != nil {
			return answer{}, worked, err
		}
		if ctx.Err() != nil {
			return answer{}, worked, ctx.Err()
		}
		if unsolved != nil {
			u.note("a challenge was not solved: " + unsolved.Error())
			return a, worked, nil //nolint:nilerr // what the service said is the answer; the note has why
		}
		worked += time.Since(began)
		u.hist.record(mChallenge, took)
		u.live.solved.Add(1)
	}
}

// wantsChallenge is whether an answer says that a solved challenge would help.
func wantsChallenge(a answer) bool {
	if a.status != http.StatusForbidden {
		return false
	}
	code := a.code()
	return code == "challenge_required" || code == "challenge_failed"
}
