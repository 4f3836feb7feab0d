package waitroom

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/waitroom-dev/waitroom/waitroom/redistest"
)

// buffered makes an open event e whose people are numbered.
func buffered(tb testing.TB, l *Line) {
	tb.Helper()
	open(tb, l, func(s *Settings) { s.Mode, s.Winners = "buffered", []int64{2} })
}

func enqueue(tb testing.TB, l *Line, receipt, request string) Numbering {
	tb.Helper()
	n, err := l.Enqueue(tb.Context(), EnqueueRequest{JoinRequest: JoinRequest{Event: "e", Receipt: receipt}, RequestID: request})
	require.NoError(tb, err)
	return n
}

// Promise 12: one request a person, in the order of arrival, and the number is told.
func TestPromise12Queue(t *testing.T) {
	t.Parallel()
	for name, start := range redistest.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := testLine(t, start(t))
			ctx := t.Context()
			buffered(t, l)
			a, b := enqueue(t, l, "", "key-a"), enqueue(t, l, "", "")
			require.Equal(t, "key-a", a.RequestID)
			require.NotEmpty(t, b.RequestID)
			require.Zero(t, a.Seq)
			require.Equal(t, "key-a", enqueue(t, l, a.Receipt, "another key").RequestID, "one request a person")
			require.Equal(t, a.Entry, enqueue(t, l, "", "key-a").Entry, "a client without cookies that asks again")
			p, err := l.Place(ctx, "e", a.Receipt)
			require.NoError(t, err)
			require.Equal(t, EntryLobby, p.State)

			q, err := l.Queued(ctx, "e", 10)
			require.NoError(t, err)
			require.Len(t, q, 2)
			require.Equal(t, QueuedRequest{Record: q[0].Record, Entry: a.Entry, Request: "key-a", Subject: string(a.Entry)}, q[0])
			require.Equal(t, b.Entry, q[1].Entry)
			done := []NumberedRequest{
				{Record: q[0].Record, Result: Result{Entry: a.Entry, Seq: 1}},
				{Record: q[1].Record, Result: Result{Entry: b.Entry, Seq: 2, Winner: true}},
			}
			for range 2 { // harmless when repeated
				require.NoError(t, l.Numbered(ctx, "e", done))
			}
			n, err := l.Numbering(ctx, JoinRequest{Event: "e", Receipt: b.Receipt})
			require.NoError(t, err)
			require.EqualValues(t, 2, n.Seq)
			require.True(t, n.Winner)
			again := enqueue(t, l, a.Receipt, "")
			require.EqualValues(t, 1, again.Seq)
			require.False(t, again.Winner)
			q, err = l.Queued(ctx, "e", 10)
			require.NoError(t, err)
			require.Empty(t, q)

			c := enqueue(t, l, "", "")
			require.NoError(t, l.Block(ctx, "e", c.Entry, "op"), "they are here, in no line")
			_, err = l.Enqueue(ctx, EnqueueRequest{JoinRequest: JoinRequest{Event: "e", Receipt: c.Receipt}})
			require.ErrorIs(t, err, ErrBlocked)

			_, err = l.Patch(ctx, "e", []byte(`{"state":"closed"}`), "op")
			require.NoError(t, err)
			_, err = l.Enqueue(ctx, EnqueueRequest{JoinRequest: JoinRequest{Event: "e"}})
			require.ErrorIs(t, err, ErrClosed)
			require.EqualValues(t, 1, enqueue(t, l, a.Receipt, "").Seq, "whoever has a number hears it in any state")
			_, err = l.Numbering(ctx, JoinRequest{Event: "e", Subject: "nobody"})
			require.ErrorIs(t, err, ErrNoEntry)
		})
	}
}

// elsewhere is a queue outside of the store.
type elsewhere struct {
	err  error
	puts []QueuedRequest
	gone []EventID
}

func (q *elsewhere) Put(_ context.Context, _ EventID, r QueuedRequest) error {
	q.puts = append(q.puts, r)
	return q.err
}

func (q *elsewhere) Forget(_ context.Context, event EventID) error {
	q.gone = append(q.gone, event)
	return q.err
}

// Promise 12 with another queue: nobody hears "queued" before it has the request, and
// who asks again is put again until the number is known.
func TestPromise12QueueElsewhere(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t, redistest.Config{}).Client(t)
	q := &elsewhere{}
	l, err := New(Config{Prefix: "q", ReceiptKeys: [][]byte{testKey(1)}, Requests: q}, rdb, zap.NewNop())
	require.NoError(t, err)
	ctx := t.Context()
	buffered(t, l)
	ask := func() (Numbering, error) {
		return l.Enqueue(ctx, EnqueueRequest{JoinRequest: JoinRequest{Event: "e"}, RequestID: "key-a"})
	}
	q.err = errors.New("away")
	_, err = ask()
	require.ErrorIs(t, err, ErrUnavailable)
	q.err = ErrBusy
	_, err = ask()
	require.ErrorIs(t, err, ErrBusy)
	holder := JoinRequest{Event: "e", Receipt: l.signer.sign(receipt{Event: "e", Entry: q.puts[0].Entry})}
	_, err = l.Numbering(ctx, holder)
	require.ErrorIs(t, err, ErrNoEntry, "who was refused does not wait")
	q.err = nil
	a, err := ask()
	require.NoError(t, err)
	want := QueuedRequest{Entry: a.Entry, Request: "key-a", Subject: string(a.Entry)}
	require.Equal(t, []QueuedRequest{want, want, want}, q.puts, "the same person, the same request")
	n, err := l.Numbering(ctx, holder)
	require.NoError(t, err)
	require.Equal(t, Numbering{Event: "e", Entry: a.Entry, RequestID: "key-a", Receipt: holder.Receipt}, n)
	waiting, err := l.Queued(ctx, "e", 10)
	require.NoError(t, err)
	require.Empty(t, waiting, "the store's own queue has none")
	q.err = ErrBusy // one who was refused has a number all the same if the queue had taken them
	_, err = l.Enqueue(ctx, EnqueueRequest{JoinRequest: JoinRequest{Event: "e"}, RequestID: "key-b"})
	require.ErrorIs(t, err, ErrBusy)
	b := q.puts[3].Entry
	require.NoError(t, l.Numbered(ctx, "e", []NumberedRequest{{Record: Outside, Result: Result{Entry: b, Seq: 2, Winner: true}}}))
	n, err = l.Numbering(ctx, JoinRequest{Event: "e", Receipt: l.signer.sign(receipt{Event: "e", Entry: b})})
	require.NoError(t, err)
	require.EqualValues(t, 2, n.Seq)
	require.Equal(t, "key-b", n.RequestID)
	q.err = nil
	require.NoError(t, l.Numbered(ctx, "e", []NumberedRequest{{Record: Outside, Result: Result{Entry: a.Entry, Seq: 1}}}))
	a, err = ask()
	require.NoError(t, err)
	require.EqualValues(t, 1, a.Seq)
	require.Len(t, q.puts, 4, "who has a number waits no more")
	require.NoError(t, l.Delete(ctx, "e", "op"))
	require.Equal(t, []EventID{"e"}, q.gone)
	open(t, l, nil)
	require.NoError(t, l.Delete(ctx, "e", "op"))
	require.Len(t, q.gone, 1, "other events have nothing there")
}

// Promise 12: sent again, a request waits once.
// unpiped is a store that goes away between a script and the pipeline behind it.
type unpiped struct{ hook }

func (unpiped) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) error {
		for _, c := range cmds {
			c.SetErr(io.ErrUnexpectedEOF)
		}
		return io.ErrUnexpectedEOF
	}
}

func TestPromise12StoreGoesWhileSomebodyAsks(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t, redistest.Config{}).Client(t)
	l := testLine(t, rdb)
	buffered(t, l)
	a := enqueue(t, l, "", "key-a")
	rdb.AddHook(unpiped{})
	_, err := l.Place(t.Context(), "e", a.Receipt)
	require.ErrorIs(t, err, ErrUnavailable, "nobody is told that a request has ended which is only not seen")
}

func TestPromise12SentAgain(t *testing.T) {
	t.Parallel()
	p, l, direct := flaky(t, 10*time.Second)
	buffered(t, direct)
	lose(t, p, redistest.Fault{Cut: true}, 1, func() error {
		_, err := l.Enqueue(t.Context(), EnqueueRequest{JoinRequest: JoinRequest{Event: "e"}})
		return err
	})
	q, err := direct.Queued(t.Context(), "e", 10)
	require.NoError(t, err)
	require.Len(t, q, 1)
}

func TestParseNumberingAndFeed(t *testing.T) {
	t.Parallel()
	for text, want := range map[placeReply]error{"b": ErrBlocked, "not_open": ErrNotOpen, "full": ErrBusy, "n x": ErrUnavailable, "": ErrUnavailable, "w 1": ErrUnavailable} {
		_, err := parseNumbering("e", "x", text)
		require.ErrorIs(t, err, want, text)
	}
	r, err := parseFeed("e", map[string]any{"b": "0", "m": "1", "n": "entry 1000 1\nother 1001 0"})
	require.NoError(t, err)
	require.Equal(t, []Result{{"entry", 1000, true}, {"other", 1001, false}}, r.numbered)
	for _, bad := range []string{"entry", "entry 0 1", "en try 1 0", "entry x 1"} {
		_, err := parseFeed("e", map[string]any{"b": "0", "m": "1", "n": bad})
		require.ErrorIs(t, err, errFeed, bad)
	}
}
