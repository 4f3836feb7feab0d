package waitroom

import (
	"errors"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// instant makes an open event e that gives out n tokens.
func instant(tb testing.TB, l *Line, n int, change func(*Settings)) Event {
	tb.Helper()
	return open(tb, l, func(s *Settings) {
		s.Mode, s.Quota.Factor = "instant", 1
		s.Tickets.Kind, s.Tickets.Stock = "stock", n
		if change != nil {
			change(s)
		}
	})
}

// ask asks as a stranger, or as whoever holds a receipt.
func ask(tb testing.TB, l *Line, receipt string) (Issued, error) {
	tb.Helper()
	return l.Issue(tb.Context(), IssueRequest{Event: "e", Receipt: receipt})
}

func issue(tb testing.TB, l *Line, receipt string) Issued {
	tb.Helper()
	got, err := ask(tb, l, receipt)
	require.NoError(tb, err)
	return got
}

func TestQuotaIsStockTimesFactorRoundedUp(t *testing.T) {
	t.Parallel()
	for want, s := range map[int64]Settings{
		240: {Tickets: TicketSettings{Stock: 200}, Quota: QuotaSettings{Factor: 1.2}},
		900: {Tickets: TicketSettings{Stock: 900}, Quota: QuotaSettings{Factor: 1}},
		2:   {Tickets: TicketSettings{Stock: 1}, Quota: QuotaSettings{Factor: 1.5}},
		12:  {Tickets: TicketSettings{Items: []ItemSettings{{Capacity: 3}, {Capacity: 5}}}, Quota: QuotaSettings{Factor: 1.5}},
		6:   {Tickets: TicketSettings{Kind: "seats", Stock: 4}, Quota: QuotaSettings{Factor: 1.5}}, // imported
		9:   {Tickets: TicketSettings{Sections: []SectionSettings{{Rows: 2, SeatsPerRow: 3}}}, Quota: QuotaSettings{Factor: 1.5}},
	} {
		require.Equal(t, want, s.Tokens())
	}
}

// Promise 10: one token a person, the same rank and token ever after; and each
// answer that there is.
func TestPromise10IssueAnswersAtOnce(t *testing.T) {
	t.Parallel()
	for name, start := range redistest.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := testLine(t, start(t))
			ctx := t.Context()
			instant(t, l, 2, func(s *Settings) { s.ClaimTTL = Duration(time.Minute) })
			a := issue(t, l, "")
			require.True(t, a.Created)
			require.EqualValues(t, 1, a.Rank)
			require.Equal(t, EntryAdmitted, a.State)
			again := issue(t, l, a.Receipt)
			require.False(t, again.Created)
			require.Equal(t, a.Grant, again.Grant)
			require.Equal(t, a.Rank, again.Rank)
			b := issue(t, l, "")
			require.EqualValues(t, 2, b.Rank)

			_, err := ask(t, l, "")
			require.ErrorIs(t, err, ErrExhausted)
			none, ok := errors.AsType[*ExhaustedError](err)
			require.True(t, ok)
			require.InDelta(t, time.Minute, none.Next, float64(10*time.Second), "when the first one may come back")

			// A token is a grant like any other.
			g, err := l.Enter(ctx, "e", passOf(a.Grant))
			require.NoError(t, err)
			require.True(t, g.Entrance)
			p, err := l.Place(ctx, "e", a.Receipt)
			require.NoError(t, err)
			require.Equal(t, EntryEntered, p.State)
			require.NoError(t, l.Complete(ctx, "e", a.Grant.JTI))
			used := issue(t, l, a.Receipt)
			require.False(t, used.Created, "whoever has used a token gets no second one")
			require.Equal(t, a.Rank, used.Rank)
			require.Equal(t, a.Grant.JTI, used.Grant.JTI)

			// What nobody used comes back, and goes to whoever asks next, once.
			at(t, l, 62*time.Second)
			c := issue(t, l, "")
			require.EqualValues(t, 3, c.Rank, "a rank is never given twice")
			_, err = ask(t, l, b.Receipt)
			require.ErrorIs(t, err, ErrExhausted)
			require.NoError(t, l.Leave(ctx, "e", c.Entry))
			d := issue(t, l, b.Receipt)
			require.True(t, d.Created)
			require.NoError(t, l.Block(ctx, "e", d.Entry, "op"))
			_, err = ask(t, l, b.Receipt)
			require.ErrorIs(t, err, ErrBlocked)

			// Nothing that is used comes back: not by leaving, not by being revoked.
			f := issue(t, l, "")
			_, err = l.Enter(ctx, "e", passOf(f.Grant))
			require.NoError(t, err)
			require.NoError(t, l.Leave(ctx, "e", f.Entry))
			_, err = ask(t, l, "")
			require.ErrorIs(t, err, ErrSoldOut, "all are used")
			require.Equal(t, f.Rank, issue(t, l, f.Receipt).Rank)
		})
	}
}

// doc.go promise 14: sold out closes what should close, once, and keeps the rest.
func TestPromise14SoldOutClosesByItsRule(t *testing.T) {
	t.Parallel()
	l := testLine(t, redistest.Mini(t))
	ctx := t.Context()
	for _, rule := range []string{"keep", "close"} {
		id := EventID(rule)
		s := DefaultSettings(id)
		s.OnSoldOut, s.Tickets.Kind, s.Tickets.Stock = rule, "stock", 1
		_, err := l.Create(ctx, s, Open, "test")
		require.NoError(t, err)
		require.NoError(t, l.Supply(ctx, id, true))
		e, err := l.Event(ctx, id)
		require.NoError(t, err)
		require.Equal(t, Open, e.State)
		for range 2 {
			require.NoError(t, l.Supply(ctx, id, false))
		}
		e, err = l.Event(ctx, id)
		require.NoError(t, err)
		trail, err := l.Audit(ctx, id, "", 0)
		require.NoError(t, err)
		require.True(t, e.SoldOut)
		if rule == "keep" {
			require.Equal(t, Open, e.State)
			require.NoError(t, l.Supply(ctx, id, true))
			back, err := l.Event(ctx, id)
			require.NoError(t, err)
			require.False(t, back.SoldOut)
			require.Greater(t, back.Version, e.Version, "every node hears of it")
			require.Len(t, trail, 2, "created and sold out, once")
			require.Equal(t, []string{"stock", "sold_out", "false", "true"}, []string{trail[1].By, trail[1].What, trail[1].Before, trail[1].After})
			continue
		}
		require.Equal(t, Closed, e.State)
		require.Equal(t, "sold_out", e.Reason)
		require.Len(t, trail, 2, "created and closed, once")
		require.Equal(t, "stock", trail[1].By)
	}
}

func TestIssueByStateModeAndSupply(t *testing.T) {
	t.Parallel()
	l := testLine(t, redistest.Mini(t))
	ctx := t.Context()
	instant(t, l, 5, nil)
	a := issue(t, l, "")
	for state, want := range map[State]error{Scheduled: ErrNotOpen, Lobby: ErrNotOpen, Paused: ErrNotOpen, Draining: ErrClosed, Closed: ErrClosed} {
		_, err := l.Patch(ctx, "e", []byte(`{"state":"`+string(state)+`"}`), "op")
		require.NoError(t, err)
		_, err = ask(t, l, "")
		require.ErrorIs(t, err, want, state)
		require.Equal(t, a.Rank, issue(t, l, a.Receipt).Rank, "whoever has one is told so in any state")
	}
	_, err := l.Patch(ctx, "e", []byte(`{"state":"open"}`), "op")
	require.NoError(t, err)
	require.NoError(t, l.Supply(ctx, "e", false))
	_, err = ask(t, l, "")
	require.ErrorIs(t, err, ErrSoldOut)
	require.NoError(t, l.Supply(ctx, "e", true))
	issue(t, l, "")

	_, err = l.Patch(ctx, "e", []byte(`{"mode":"queue"}`), "op")
	require.NoError(t, err)
	_, err = ask(t, l, "")
	require.ErrorIs(t, err, ErrWrongMode)
	_, err = l.Issue(ctx, IssueRequest{Event: "none"})
	require.ErrorIs(t, err, ErrNoEvent)
}

// A wristband that was given out is given out: it comes back never.
func TestTokensThatNeverReturn(t *testing.T) {
	t.Parallel()
	l := testLine(t, redistest.Mini(t))
	instant(t, l, 1, func(s *Settings) { s.Quota.Returns, s.Identity = "never", "jwt" })
	who := IssueRequest{Event: "e", Subject: "student 7"}
	a, err := l.Issue(t.Context(), who)
	require.NoError(t, err)
	require.Equal(t, "student 7", a.Grant.Subject)
	at(t, l, time.Hour)
	_, err = l.Issue(t.Context(), IssueRequest{Event: "e", Subject: "student 8"})
	require.ErrorIs(t, err, ErrSoldOut)
	b, err := l.Issue(t.Context(), who)
	require.NoError(t, err)
	require.False(t, b.Created)
	require.Equal(t, a.Rank, b.Rank)
	require.Equal(t, a.Grant.JTI, b.Grant.JTI)
}

// Promise 10: 1,000 people at once, each twice at the same time, on two nodes.
func TestPromise10NoneOverNoneTwice(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t, redistest.Config{}).Client(t)
	l := testLine(t, rdb)
	nodes := []*Line{l, testLineAs(t, rdb, l.cfg.Prefix)}
	instant(t, l, 900, func(s *Settings) { s.Identity = "jwt" })
	var mu sync.Mutex
	created, ranks := 0, make(map[string]int64)
	var wg sync.WaitGroup
	for i := range 2000 {
		wg.Go(func() {
			who := strconv.Itoa(i / 2)
			got, err := nodes[i%2].Issue(t.Context(), IssueRequest{Event: "e", Subject: who})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				if !errors.Is(err, ErrExhausted) {
					t.Errorf("issue: %v", err)
				}
				return
			}
			if got.Created {
				created++
			}
			if was, ok := ranks[who]; ok && was != got.Rank {
				t.Errorf("%s has ranks %d and %d", who, was, got.Rank)
			}
			ranks[who] = got.Rank
		})
	}
	wg.Wait()
	require.Equal(t, 900, created)
	require.Len(t, ranks, 900)
	seen := make(map[int64]bool)
	for _, r := range ranks {
		require.True(t, r >= 1 && r <= 900 && !seen[r])
		seen[r] = true
	}
}

// Promises 4 and 10: an ask that was sent four times gave out one token, and its
// sender learns that it is theirs.
func TestPromise10SentAgain(t *testing.T) {
	t.Parallel()
	p, l, direct := flaky(t, 10*time.Second)
	instant(t, direct, 2, nil)
	var a Issued
	lose(t, p, redistest.Fault{Cut: true}, 1, func() (err error) { a, err = ask(t, l, ""); return err })
	require.True(t, a.Created)
	require.EqualValues(t, 1, a.Rank)
	b := issue(t, direct, "")
	require.EqualValues(t, 2, b.Rank)
	require.NoError(t, direct.Leave(t.Context(), "e", b.Entry))
	lose(t, p, redistest.Fault{Cut: true}, 1, func() (err error) { b, err = ask(t, l, b.Receipt); return err })
	require.True(t, b.Created)
	require.EqualValues(t, 3, b.Rank)
	e, err := direct.Event(t.Context(), "e")
	require.NoError(t, err)
	require.EqualValues(t, 2, e.Inside)
}

// Whoever has no answer asks again as the same person.
func TestUnansweredAskHasAReceipt(t *testing.T) {
	t.Parallel()
	p, l, direct := flaky(t, 10*time.Second)
	instant(t, direct, 5, nil)
	p.Fail(func(int) redistest.Fault { return redistest.Fault{Cut: true} })
	none, err := ask(t, l, "")
	require.ErrorIs(t, err, ErrUnavailable)
	p.Fail(nil)
	a := issue(t, direct, none.Receipt)
	require.EqualValues(t, 1, a.Rank)
	require.Equal(t, none.Entry, a.Entry)
	e, err := direct.Event(t.Context(), "e")
	require.NoError(t, err)
	require.EqualValues(t, 1, e.Inside, "the token of the lost answer was theirs")
}

// Promise 10 on a cluster, and with replicas to wait for.
func TestPromise10OnAClusterAndDurable(t *testing.T) {
	t.Parallel()
	l := testLine(t, redistest.Cluster(t))
	instant(t, l, 1, nil)
	issue(t, l, "")
	_, err := ask(t, l, "")
	require.ErrorIs(t, err, ErrExhausted)
	require.NoError(t, l.Delete(t.Context(), "e", "op"))
	instant(t, l, 1, func(s *Settings) { s.Durable = true })
	_, err = l.Issue(t.Context(), IssueRequest{Event: "e", Durable: true})
	require.ErrorIs(t, err, ErrNotReplicated, "a master without a replica")
}

func TestDurableWaitsForTheReplica(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, redistest.Config{Args: followedAtOnce})
	replica := redistest.Start(t, redistest.Config{})
	host, port, err := net.SplitHostPort(srv.Addr())
	require.NoError(t, err)
	require.NoError(t, replica.Client(t).Do(t.Context(), "REPLICAOF", host, port).Err())
	l := testLine(t, srv.Client(t))
	instant(t, l, 5, func(s *Settings) { s.Durable = true })
	require.NoError(t, srv.Client(t).Do(t.Context(), "WAIT", 1, 20_000).Err())
	who := IssueRequest{Event: "e", Durable: true}
	a, err := l.Issue(t.Context(), who)
	require.NoError(t, err)
	there := testLineAs(t, replica.Client(t), l.cfg.Prefix)
	rank, err := there.rdb.HGet(t.Context(), l.keys.issued("e"), string(a.Entry)).Result()
	require.NoError(t, err, "what was answered is on the replica")
	require.Contains(t, rank, a.Grant.JTI)

	replica.Freeze(t)
	none, err := l.Issue(t.Context(), who)
	require.ErrorIs(t, err, ErrNotReplicated)
	require.ErrorIs(t, err, ErrUnavailable)
	who.Receipt = a.Receipt
	_, err = l.Issue(t.Context(), who)
	require.ErrorIs(t, err, ErrNotReplicated, "also whoever is told again")
	replica.Thaw(t)
	who.Receipt = none.Receipt
	for range 50 { // the replica has to come back first
		if a, err = l.Issue(t.Context(), who); err == nil {
			break
		}
		require.ErrorIs(t, err, ErrNotReplicated)
	}
	require.NoError(t, err)
	require.EqualValues(t, 2, a.Rank, "the token that was not answered for")
}

func FuzzParseIssued(f *testing.F) {
	for _, s := range []string{"i 1 e 5 j.1 1000 2000 -", "a 1 j.1 5 1000 2000 admitted - 2000", "u 1 j.1 5 1000 2000 -", "exhausted 5", "sold_out", "b", "w 5", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := parseIssued("e", "x", placeReply(s))
		if err == nil {
			require.NotEmpty(t, got.Grant.JTI)
		}
	})
}
