package draw

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Beacon is public randomness of a named round, as drand publishes it. Chained and
// unchained networks have the same fields; the randomness is the signature's
// SHA-256.
type Beacon struct {
	// Round is the number that was named before the lobby opened.
	Round uint64 `json:"round"`
	// Randomness is the round's output.
	Randomness Hash `json:"randomness"`
	// Signature is what it is the hash of, hexadecimal.
	Signature Hex `json:"signature"`
}

// Check is nil if the randomness is its signature's hash. That the signature is the
// network's own is for a drand client to say.
func (b Beacon) Check() error {
	if len(b.Signature) == 0 || Hash(sha256.Sum256(b.Signature)) != b.Randomness {
		return fmt.Errorf("draw: beacon round %d: the randomness is not its signature's hash", b.Round)
	}
	return nil
}

// Bundle is everything that was published of a finished draw.
type Bundle struct {
	// Event is the event's id.
	Event string `json:"event"`
	// Commitment was published before the lobby opened.
	Commitment Hash `json:"commitment"`
	// Root and Size were published when it closed.
	Root Hash `json:"root"`
	Size int  `json:"size"`
	// Round is the beacon's round that was named with the commitment; 0: no beacon.
	Round uint64 `json:"round,omitempty"`
	// Beacon is absent where none is configured, or where it did not come and the
	// event fell back to the commitment alone; Fallback then says so.
	Beacon   *Beacon `json:"beacon,omitempty"`
	Fallback bool    `json:"fallback,omitempty"`
	// Seed was published last.
	Seed Seed `json:"seed"`
	// Line is the entrants by place: Line[0] was the first.
	Line []Hash `json:"line"`
}

// ReadBundle reads one bundle, strictly.
func ReadBundle(r io.Reader) (Bundle, error) {
	var b Bundle
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err := d.Decode(&b); err != nil {
		return Bundle{}, fmt.Errorf("draw: bundle: %w", err)
	}
	if d.More() {
		return Bundle{}, errors.New("draw: bundle: something stands behind it")
	}
	return b, nil
}

// key is what the published parts pick.
func (b *Bundle) key() Hash {
	var beacon []byte
	if b.Beacon != nil {
		beacon = b.Beacon.Randomness[:]
	}
	return Key(b.Event, b.Seed, b.Root, b.Size, beacon)
}

// Verify is nil if the line is the draw of exactly these entrants by this seed and
// beacon; otherwise it says what is wrong first. What was noted at the time, such as
// the commitment that a page has kept, is compared by the caller.
func (b *Bundle) Verify() error {
	if Commitment(b.Event, b.Seed) != b.Commitment {
		return errors.New("draw: the seed is not the one that was committed to")
	}
	switch {
	case b.Round == 0 && (b.Beacon != nil || b.Fallback):
		return errors.New("draw: a beacon that was not named in advance")
	case b.Round != 0 && b.Beacon == nil && !b.Fallback:
		return fmt.Errorf("draw: the beacon of round %d is missing", b.Round)
	case b.Beacon != nil && b.Fallback:
		return errors.New("draw: a beacon, and the word that none came")
	case b.Beacon != nil && b.Beacon.Round != b.Round:
		return fmt.Errorf("draw: the beacon is of round %d, not of %d", b.Beacon.Round, b.Round)
	case b.Beacon != nil:
		if err := b.Beacon.Check(); err != nil {
			return err
		}
	}
	if len(b.Line) != b.Size {
		return fmt.Errorf("draw: %d stand in the line, but %d were in the lobby when it closed", len(b.Line), b.Size)
	}
	list, err := NewList(b.Line)
	if err != nil {
		return err
	}
	if list.Root() != b.Root {
		return errors.New("draw: who stands in the line is not who was in the lobby when it closed: the root differs")
	}
	order, err := NewOrder(b.key(), b.Size)
	if err != nil {
		return err
	}
	for i, place := range order.Places() {
		if b.Line[place] != list[i] {
			at, _ := list.Index(b.Line[place])
			return fmt.Errorf("draw: place %d belongs to %s, but %s stands there, whose place is %d",
				place+1, list[i], b.Line[place], order.Place(at)+1)
		}
	}
	return nil
}
