package pay

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/waitroom-dev/waitroom/ticket"
)

// wild is a sandbox on a bad line: requests, answers and workers get lost.
type wild struct {
	*Sandbox
	roll func(n int) int // a number below n
	kill func()          // ends the worker that calls
}

func (w *wild) Charge(ctx context.Context, r ChargeRequest) (Charge, error) {
	switch w.roll(8) {
	case 0: // the request is lost
		<-ctx.Done()
		return Charge{}, ctx.Err()
	case 1: // it comes late
		_ = wait(ctx, time.Duration(w.roll(5000))*time.Millisecond)
		return w.Sandbox.Charge(ctx, r)
	case 2: // the answer is lost
		_, _ = w.Sandbox.Charge(ctx, r)
		<-ctx.Done()
		return Charge{}, ctx.Err()
	case 3: // the worker dies after the charge
		_, _ = w.Sandbox.Charge(ctx, r)
		w.kill()
		<-ctx.Done()
		return Charge{}, ctx.Err()
	default:
		return w.Sandbox.Charge(ctx, r)
	}
}

func (w *wild) Find(ctx context.Context, key string) (Charge, error) {
	if w.roll(4) == 0 {
		<-ctx.Done()
		return Charge{}, ctx.Err()
	}
	return w.Sandbox.Find(ctx, key)
}

func (w *wild) Refund(ctx context.Context, r RefundRequest) (Refund, error) {
	done, err := w.Sandbox.Refund(ctx, r)
	if w.roll(3) == 0 {
		<-ctx.Done()
		return Refund{}, ctx.Err()
	}
	return done, err
}

// mortal is a store whose calls do nothing once its worker was killed.
type mortal struct {
	*books
	dead atomic.Bool
}

func (m *mortal) Settle(ctx context.Context, id string, r ticket.PaymentResult) (ticket.Outcome, error) {
	if m.dead.Load() {
		return ticket.Outcome{}, errAway
	}
	return m.books.Settle(ctx, id, r)
}

func (m *mortal) SettleRefund(ctx context.Context, id string) (ticket.Outcome, error) {
	if m.dead.Load() {
		return ticket.Outcome{}, errAway
	}
	return m.books.SettleRefund(ctx, id)
}

// Promises 1, 2, 6, 7 and 8 under generated faults: the books balance, nothing is
// left open, and no payment was ever charged under more than one key.
func TestBooksBalanceUnderFaults(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		methods := rapid.SliceOfN(rapid.SampledFrom([]string{MethodApprove, MethodDecline, MethodDelay, MethodVanish, MethodTwice}), 1, 30).Draw(rt, "methods")
		gone := rapid.SliceOfN(rapid.Bool(), len(methods), len(methods)).Draw(rt, "gone")
		seed := rapid.Uint64().Draw(rt, "seed")
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			roll := func(n int) int {
				mu.Lock()
				defer mu.Unlock()
				seed = seed*6364136223846793005 + 1442695040888963407
				return int(seed>>33) % n
			}
			b := newBooks()
			s := NewSandbox(SandboxConfig{})
			for i, m := range methods {
				b.add(fmt.Sprintf("p%d", i), m)
				b.gone[fmt.Sprintf("p%d", i)] = gone[i]
			}
			// Three workers, one after the other, each killed by its first fatal charge.
			for range 3 {
				m := &mortal{books: b}
				killed := make(chan struct{})
				kill := sync.OnceFunc(func() { m.dead.Store(true); close(killed) })
				w := newWorker(t, m, newGuard(t, &wild{s, roll, kill}, GuardConfig{}))
				stop := running(t, w)
				select {
				case <-killed:
				case <-time.After(10 * time.Minute):
				}
				m.dead.Store(true)
				stop()
			}
			calm := newDesk(t, b, s)
			stop := running(t, calm.worker)
			time.Sleep(10 * time.Minute)
			stop()
			require.Zero(t, b.open(), "everything is settled in the end")
			for i, m := range methods {
				id := fmt.Sprintf("p%d", i)
				want := ticket.PaymentCaptured
				if gone[i] {
					want = ticket.PaymentRefunded
				}
				if m == MethodDecline {
					want = ticket.PaymentDeclined
				}
				require.Equal(t, want, b.state(id), "%s, method %s, gone %t", id, m, gone[i])
			}
			require.Len(t, b.outcomes(), len(methods), "each buyer is told once")
			calm.balanced(t)
		})
	})
}
