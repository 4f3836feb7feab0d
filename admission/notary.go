package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/waitroom-dev/waitroom/admission/ledger"
	"github.com/waitroom-dev/waitroom/waitroom"
)

// Book is where the admission logs are: the line.
type Book interface {
	// Log is a page of an event's log.
	Log(ctx context.Context, event waitroom.EventID, from int64, most int) (waitroom.LogPage, error)
	// SealLog stores a head; ErrStaleLog when the log is another one by now.
	SealLog(ctx context.Context, event waitroom.EventID, s waitroom.Seal) error
}

const (
	// logPage is how many leaves are read at once.
	logPage = 1000
	// markEvery is how many leaves there are between the places where a log may be
	// cut, and mostLeaves how many an event keeps: package ledger says what that is in
	// bytes and hours.
	markEvery  = 1 << 16
	mostLeaves = 1 << 20
)

// Notary walks the chain behind the leaves that the line's scripts wrote, and signs
// its end. What it signs follows from the leaves and the key alone, so that any
// number of notaries may be at it.
type Notary struct {
	book Book
	keys *Keys
	// How much is read and kept, as the constants say; tests take less.
	page, step, keep int64
}

// NewNotary seals the logs of this book with these keys.
func NewNotary(book Book, keys *Keys) *Notary {
	return &Notary{book: book, keys: keys, page: logPage, step: markEvery, keep: mostLeaves}
}

// Seal brings an event's sealed head up to the log's end, and gives it. An error
// leaves it where it was, or on the way; the next call goes on from there.
func (n *Notary) Seal(ctx context.Context, event waitroom.EventID) (ledger.Head, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	at, err := n.stand(ctx, event)
	if err != nil {
		return ledger.Head{}, err
	}
	for {
		most := min(n.page, n.step-at.N%n.step)
		p, err := n.book.Log(ctx, event, at.N, int(most))
		if err != nil {
			return ledger.Head{}, err
		}
		if p.Chain != at.Chain || p.From != at.N {
			return ledger.Head{}, fmt.Errorf("log of %s: %w", event, waitroom.ErrStaleLog)
		}
		for _, text := range p.Leaves {
			leaf, err := ledger.Parse(text)
			if err != nil { // covered as it is: the check will show it
				leaf.At = at.Time()
			}
			at.N, at.At, at.Hash = at.N+1, leaf.At.UnixMilli(), at.Hash.Next(text)
		}
		if len(p.Leaves) == 0 && at.Sig != "" && at.KID == n.keys.KID() {
			return at, nil
		}
		at = ledger.Sign(at, n.keys)
		s := waitroom.Seal{Chain: at.Chain, N: at.N, Head: at.Encode(), Step: n.step, Keep: n.keep}
		if at.N > 0 && at.N%n.step == 0 {
			s.Mark = at.Hash.String()
		}
		if err := n.book.SealLog(ctx, event, s); err != nil {
			return ledger.Head{}, err
		}
	}
}

// stand is the sealed head as it is, or the start of the chain.
func (n *Notary) stand(ctx context.Context, event waitroom.EventID) (ledger.Head, error) {
	p, err := n.book.Log(ctx, event, 0, 0)
	if err != nil {
		return ledger.Head{}, err
	}
	if p.Head != "" {
		h, err := ledger.DecodeHead(string(event), p.Chain, p.Head)
		if err != nil {
			return h, fmt.Errorf("log of %s: %w", event, err)
		}
		return h, nil
	}
	h := ledger.Head{Event: string(event), Chain: p.Chain, N: p.First, Hash: ledger.Start(string(event), p.Chain)}
	if p.First > 0 {
		return h, fmt.Errorf("log of %s: cut, and without a head", event)
	}
	return h, nil
}

// logBody is a page of the log as everybody may read it.
type logBody struct {
	Event string `json:"event"`
	Chain string `json:"chain"`
	Order string `json:"order"`
	// First is how many leaves are gone from the front, Start the hash behind them.
	First int64       `json:"first"`
	Start ledger.Hash `json:"start"`
	// From is how many leaves stand before these; Next is what to ask for next.
	From   int64       `json:"from"`
	Next   int64       `json:"next"`
	Head   ledger.Head `json:"head"`
	Leaves []string    `json:"leaves"`
}

// Page is a page of an event's log up to its sealed head, as JSON: at most so many
// leaves behind the first from. Full reports that no later call will find more
// behind this page's first leaf than it has. Errors: waitroom.ErrNoEvent, ErrUnavailable.
func (n *Notary) Page(ctx context.Context, event waitroom.EventID, from int64, most int) (page []byte, full bool, err error) {
	p, err := n.book.Log(ctx, event, from, most)
	if err != nil {
		return nil, false, err
	}
	if p.Head == "" { // the first seal comes within a second of an event's beginning
		return nil, false, fmt.Errorf("log of %s is not sealed yet: %w", event, waitroom.ErrUnavailable)
	}
	body := logBody{Event: string(event), Chain: p.Chain, Order: p.Order, First: p.First, From: p.From}
	if body.Head, err = ledger.DecodeHead(body.Event, p.Chain, p.Head); err != nil {
		return nil, false, fmt.Errorf("log of %s: %w: %w", event, waitroom.ErrUnavailable, err)
	}
	body.Start = ledger.Start(body.Event, p.Chain)
	if p.First > 0 {
		if err := body.Start.UnmarshalText([]byte(p.Start)); err != nil {
			return nil, false, fmt.Errorf("log of %s: start: %w: %w", event, waitroom.ErrUnavailable, err)
		}
	}
	full = len(p.Leaves) == most && p.From+int64(most) <= body.Head.N
	body.Leaves = slices.Clip(p.Leaves[:max(0, min(int64(len(p.Leaves)), body.Head.N-p.From))])
	if body.Leaves == nil {
		body.Leaves = []string{}
	}
	body.Next = p.From + int64(len(body.Leaves))
	b, err := json.Marshal(body)
	return b, full, err
}

// Head is the newest head of an event's log that this node has heard of, as JSON.
func (c *Controller) Head(event waitroom.EventID) ([]byte, bool) {
	s, ok := c.Decision(event)
	if !ok || s.Head == nil {
		return nil, false
	}
	b, err := json.Marshal(s.Head)
	return b, err == nil
}
