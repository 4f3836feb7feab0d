package waitroom

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash"
	"strings"
	"sync"
)

// A receipt is base64url (no padding) of
//
//	version ‖ flags ‖ uvarint seq ‖ entry ‖ member ‖ event ‖ mac (16 bytes)
//
// where mac is the first half of HMAC-SHA256 over a label and all that stands
// before it, and the version tells the sizes: 1 is an entry of 12 bytes, 2 one of 9, 3 a
// party's of 9 with a member of 9, 4 the same with a member of 12. Fans see an opaque
// string of about 60 characters.
const (
	receiptLong    = 1 // version: the entry of a subject
	receiptShort   = 2 // version: an anonymous entry
	partyShort     = 3 // version: a party's entry, and an anonymous member
	partyLong      = 4 // version: a party's entry, and a member of whom the site has a subject
	receiptMobile  = 1 // flag: a phone, whose grace is the longer one
	receiptMAC     = 16
	receiptLongest = 256 // characters; the longest that we make has 151
	seqLimit       = 1 << 53
)

// receipt is what a place token says.
type receipt struct {
	Event  EventID
	Entry  EntryID
	Member EntryID // the person, where the entry is a party's; else empty
	Seq    Seq
	Mobile bool
}

// person is whose receipt it is.
func (rc receipt) person() EntryID { return cmp.Or(rc.Member, rc.Entry) }

// receipts signs with the first key and verifies with all.
type receipts struct {
	keys [][]byte
	// macs are hashes that were begun with the key of the same index: to begin one takes
	// as long as to hash a receipt.
	macs []*sync.Pool
}

func newReceipts(keys ...[]byte) receipts {
	r := receipts{keys: keys, macs: make([]*sync.Pool, len(keys))}
	for i, key := range keys {
		r.macs[i] = &sync.Pool{New: func() any { return hmac.New(sha256.New, key) }}
	}
	return r
}

var receiptLabel = []byte("waitroom receipt\x00")

// appendMAC adds the mac of payload by a key to b.
func (r receipts) appendMAC(b []byte, key int, payload []byte) []byte {
	m, _ := r.macs[key].Get().(hash.Hash)
	defer r.macs[key].Put(m)
	m.Reset()
	m.Write(receiptLabel)
	m.Write(payload)
	return m.Sum(b)[:len(b)+receiptMAC]
}

// sign makes the token; the entry must be one of ours.
func (r receipts) sign(rc receipt) string {
	b := make([]byte, 0, 144)
	var flags byte
	if rc.Mobile {
		flags |= receiptMobile
	}
	b = append(b, receiptShort, flags)
	b = binary.AppendUvarint(b, uint64(max(rc.Seq, 0)))
	before := len(b)
	b, err := base64.RawURLEncoding.AppendDecode(b, []byte(rc.Entry))
	switch n := len(b) - before; {
	case err == nil && n == entryBytes:
	case err == nil && n == idBytes:
		b[0] = receiptLong
	default:
		return "" // an entry that no version of ours made has no receipt
	}
	if rc.Member != "" {
		before = len(b)
		b, err = base64.RawURLEncoding.AppendDecode(b, []byte(rc.Member))
		switch n := len(b) - before; {
		case err != nil || b[0] != receiptShort || n != entryBytes && n != idBytes:
			return ""
		case n == idBytes:
			b[0] = partyLong
		default:
			b[0] = partyShort
		}
	}
	b = append(b, rc.Event...)
	b = r.appendMAC(b, 0, b)
	return string(base64.RawURLEncoding.AppendEncode(make([]byte, 0, 192), b))
}

// read verifies a token: ErrTokenInvalid unless it is exactly what sign makes.
func (r receipts) read(token string) (receipt, error) {
	if len(token) > receiptLongest {
		return receipt{}, fmt.Errorf("receipt of %d characters: %w", len(token), ErrTokenInvalid)
	}
	b, ok := decodeToken(token)
	if !ok || len(b) < 2+1+entryBytes+1+receiptMAC {
		return receipt{}, fmt.Errorf("receipt: %w", ErrTokenInvalid)
	}
	payload, mac := b[:len(b)-receiptMAC], b[len(b)-receiptMAC:]
	good := false
	for key := range r.macs {
		good = hmac.Equal(r.appendMAC(nil, key, payload), mac) || good
	}
	if !good {
		return receipt{}, fmt.Errorf("receipt: signature: %w", ErrTokenInvalid)
	}
	size, member := entryBytes, 0
	switch payload[0] {
	case receiptLong:
		size = idBytes
	case receiptShort:
	case partyShort:
		member = entryBytes
	case partyLong:
		member = idBytes
	default:
		return receipt{}, fmt.Errorf("receipt: version %d: %w", payload[0], ErrTokenInvalid)
	}
	if payload[1]&^receiptMobile != 0 {
		return receipt{}, fmt.Errorf("receipt: flags %x: %w", payload[1], ErrTokenInvalid)
	}
	seq, n := binary.Uvarint(payload[2:])
	rest := payload[2+max(n, 0):]
	if n <= 0 || seq >= seqLimit || len(rest) <= size+member {
		return receipt{}, fmt.Errorf("receipt: sequence: %w", ErrTokenInvalid)
	}
	return receipt{
		Event:  EventID(rest[size+member:]),
		Entry:  EntryID(base64.RawURLEncoding.EncodeToString(rest[:size])),
		Member: EntryID(base64.RawURLEncoding.EncodeToString(rest[size : size+member])),
		Seq:    Seq(seq),
		Mobile: payload[1]&receiptMobile != 0,
	}, nil
}

// decodeToken reads base64url in its one spelling: no padding, no stray bits,
// and no line breaks, which even a strict decoder skips.
func decodeToken(token string) ([]byte, bool) {
	if strings.ContainsAny(token, "\r\n") {
		return nil, false
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(token)
	return b, err == nil
}

// ReadReceipt verifies a place token without asking the store: whose it is, which for
// most people is their entry's id, and the sequence of their place. Errors:
// ErrTokenInvalid, and ErrWrongEvent for a good one of another event.
func (l *Line) ReadReceipt(event EventID, token string) (EntryID, Seq, error) {
	rc, err := l.readReceipt(event, token)
	return rc.person(), rc.Seq, err
}

// PartyOf is the party that a place token is of, as its entry's id; empty for somebody who
// stands alone, and for a token that is none of the event's.
func (l *Line) PartyOf(event EventID, token string) EntryID {
	rc, err := l.readReceipt(event, token)
	if err != nil || rc.Member == "" {
		return ""
	}
	return rc.Entry
}

func (l *Line) readReceipt(event EventID, token string) (receipt, error) {
	rc, err := l.signer.read(token)
	if err != nil {
		return receipt{}, err
	}
	if rc.Event != event {
		return receipt{}, fmt.Errorf("receipt for %s: %w", event, ErrWrongEvent)
	}
	return rc, nil
}
