// Package drand reads public randomness from a drand network over its HTTP API: the
// chained networks and quicknet alike.
//
// A network publishes a round every period since its genesis. Anyone can compute
// which round a moment belongs to; nobody knows a round's randomness before it is
// published. What is read here is checked as far as a hash goes: the randomness is
// the SHA-256 of the round's signature. The signature is kept, so that anyone with
// the network's public key can check it too.
package drand

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/waitroom-dev/waitroom/waitroom/draw"
)

// Network is one drand network at an address. Any number of goroutines may use it.
type Network struct {
	url    string
	client *http.Client

	mu   sync.Mutex // guards info
	info info
}

// info is what a network says of itself; it never changes.
type info struct {
	Period      int64 `json:"period"`       // seconds
	GenesisTime int64 `json:"genesis_time"` // of round 1, Unix seconds
}

// New reads nothing yet.
func New(url string, client *http.Client) *Network {
	return &Network{url: strings.TrimRight(url, "/"), client: client}
}

// RoundAt is the first round that is published at this moment or later.
func (n *Network) RoundAt(ctx context.Context, at time.Time) (uint64, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.info.Period == 0 {
		var i info
		if err := n.get(ctx, "/info", &i); err != nil {
			return 0, err
		}
		if i.Period <= 0 || i.GenesisTime <= 0 {
			return 0, errors.New("drand: the network names no period or no genesis")
		}
		n.info = i
	}
	since := at.Unix() - n.info.GenesisTime
	if at.Nanosecond() > 0 {
		since++
	}
	if since <= 0 {
		return 1, nil
	}
	return uint64((since+n.info.Period-1)/n.info.Period) + 1, nil //nolint:gosec // since is above zero
}

// Round is a round that has been published.
func (n *Network) Round(ctx context.Context, round uint64) (draw.Beacon, error) {
	var got struct {
		Round      uint64    `json:"round"`
		Signature  draw.Hex  `json:"signature"`
		Randomness draw.Hash `json:"randomness"`
	}
	if err := n.get(ctx, "/public/"+strconv.FormatUint(round, 10), &got); err != nil {
		return draw.Beacon{}, err
	}
	b := draw.Beacon{Round: got.Round, Signature: got.Signature, Randomness: got.Randomness}
	if b.Randomness == (draw.Hash{}) { // newer answers leave it to the reader
		b.Randomness = sha256.Sum256(b.Signature)
	}
	if b.Round != round {
		return draw.Beacon{}, fmt.Errorf("drand: asked for round %d, was given %d", round, b.Round)
	}
	return b, b.Check()
}

func (n *Network) get(ctx context.Context, path string, into any) error {
	const most = 64 << 10
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, n.url+path, nil)
	if err != nil {
		return fmt.Errorf("drand: %w", err)
	}
	res, err := n.client.Do(req)
	if err != nil {
		return fmt.Errorf("drand: %w", err)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, most))
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return fmt.Errorf("drand: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("drand: %s answered %d", path, res.StatusCode)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("drand: %s: %w", path, err)
	}
	return nil
}
